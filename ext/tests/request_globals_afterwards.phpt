--TEST--
fillGlobals(): the answer has left when functions of register_shutdown_function() are called, which know the request and may wait
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/{name}', function (Request $request) {
    $request->fillGlobals();
    $name = $request->route('name');
    register_shutdown_function(function () use ($request, $name) {
        $gate = getenv('TEST_FOLDER') . "/$name";
        // The client creates the file when it has received the response.
        for ($i = 0; $i < 500 && !file_exists($gate); $i++) {
            usleep(10_000);
        }
        if ($name === 'waits') {
            delay(0.02);
        }
        error_log("afterwards $name " . json_encode([file_exists($gate), $request->header('X-One'), $request->path(), $request->query('a'), $_SERVER['REQUEST_URI']]));
    });
    return $name === 'large' ? Response::text(str_repeat('a', 100_000)) : Response::text("answer to $name", 200);
});
PHP, 'workers: 1, limits: new Limits(handlers: 1)', environment: ['TEST_FOLDER' => $folder = sys_get_temp_dir() . '/fermata-afterwards-' . getmypid()]);
mkdir($folder);
$client = $server->connect();
foreach (['one', 'waits', 'large', 'two'] as $name) {
    $answer = $client->request('GET', "/$name?a=b", ['X-One' => "of $name"]);
    touch("$folder/$name");
    echo "$answer->status ", strlen($answer->body), "\n";
}
// Two requests in one write; the second closes the connection.
$client = $server->connect();
$client->send("GET /three HTTP/1.1\r\nHost: test\r\nX-One: 3\r\n\r\nGET /four HTTP/1.1\r\nHost: test\r\nX-One: 4\r\nConnection: close\r\n\r\n");
foreach (['three', 'four'] as $name) {
    echo $client->answer(), "\n";
    touch("$folder/$name");
}
foreach (['one', 'waits', 'large', 'two', 'three', 'four'] as $name) {
    echo $server->wait("~(afterwards $name \[.*?\])~")[1], "\n";
    unlink("$folder/$name");
}
rmdir($folder);
?>
--EXPECT--
200 13
200 15
200 100000
200 13
200 answer to three
200 answer to four
afterwards one [true,"of one","\/one","b","\/one?a=b"]
afterwards waits [true,"of waits","\/waits","b","\/waits?a=b"]
afterwards large [true,"of large","\/large","b","\/large?a=b"]
afterwards two [true,"of two","\/two","b","\/two?a=b"]
afterwards three [true,"3","\/three",null,"\/three"]
afterwards four [true,"4","\/four",null,"\/four"]
