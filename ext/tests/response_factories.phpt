--TEST--
Response: the named constructors
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\Response;

foreach ([
    new Response(),
    new Response(200, 'x'),
    new Response(status: 404, body: 'x', headers: ['Content-Type' => 'text/css', 'Vary' => ['A', 'B']]),
    Response::json(['a' => '/ü', 'b' => 1.5, 'c' => null], 201),
    Response::json('text'),
    Response::text('täxt'),
    Response::html('<p>', status: 500),
    Response::redirect('/there?a=b'),
    Response::redirect('/there', 308),
    Response::accepted(),
    Response::noContent(),
] as $response) {
    echo $response->status(), ' ', $response->body(), ' ', json_encode($response->headers(), JSON_UNESCAPED_SLASHES), "\n";
}
?>
--EXPECT--
200  []
200 x {"Content-Type":["text/plain; charset=utf-8"]}
404 x {"Content-Type":["text/css"],"Vary":["A","B"]}
201 {"a":"/ü","b":1.5,"c":null} {"Content-Type":["application/json"]}
200 "text" {"Content-Type":["application/json"]}
200 täxt {"Content-Type":["text/plain; charset=utf-8"]}
500 <p> {"Content-Type":["text/html; charset=utf-8"]}
302  {"Location":["/there?a=b"]}
308  {"Location":["/there"]}
202  []
204  []
