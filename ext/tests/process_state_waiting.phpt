--TEST--
What PHP keeps once for a process follows a handler that waits: the callback of usort(), strtok(), serialize(), buffers, the error handler
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$program = <<<'PHP'
ob_start();
ob_start(fn ($text) => $text);
class Slow
{
    public function __construct(public string $who) {}
    public function __serialize(): array { delay(0.02); return [$this->who, new stdClass]; }
    public function __unserialize(array $data): void { delay(0.02); $this->who = $data[0]; }
}
#[AllowDynamicProperties]
class Lazy
{
    public function __get(string $name): string { $before = isset($this->$name); delay(0.02); return "lazy $name" . ($before ? '!' : ''); }
    public function __isset(string $name): bool { delay(0.01); return true; }
    // During a nested write PHP accesses the property directly.
    public function __set(string $name, mixed $value): void { delay(0.01); $this->$name = $value; delay(0.01); unset($this->$name); }
}
$lazy = new Lazy;
set_error_handler(function (int $level, string $message) {
    if (str_contains($message, 'slow')) {
        delay(0.05);
    }
    throw new ErrorException("handled: $message");
});
$error = function (string $message): string {
    try {
        trigger_error($message);
    } catch (ErrorException $e) {
        return $e->getMessage();
    }
    return 'not handled';
};
$does = [
    'usort' => function (string $who): array {
        $all = range(6, 1);
        $called = 0;
        usort($all, function ($a, $b) use (&$called) { $called++; delay(0.005); return $a <=> $b; });
        return [$all, $called];
    },
    'uksort' => function (string $who): array {
        $all = ["$who-2" => 1, "$who-1" => 2];
        uksort($all, function ($a, $b) use ($who) { delay(0.02); return str_starts_with($a, $who) ? strcmp($a, $b) : exit; });
        return $all;
    },
    'array_udiff' => fn (string $who): array => array_udiff(["$who-1", "$who-2"], ["$who-2"], function ($a, $b) use ($who) {
        delay(0.01);
        return str_starts_with($a, $who) ? strcmp($a, $b) : exit;
    }),
    'lazy' => fn (string $who): array => [$lazy->one, isset($lazy->one), $lazy->two, $lazy->three = $who],
    'strtok' => function (string $who): array {
        $got = [strtok("$who-1 $who-2 $who-3", ' ')];
        while (true) {
            delay(0.01);
            if (($next = strtok(' ')) === false) {
                return $got;
            }
            $got[] = $next;
        }
    },
    'serialize' => function (string $who): array {
        $one = new stdClass;
        return [serialize([new Slow($who), $one, $one]), unserialize(serialize([new Slow($who), $one, $one]))[0]->who];
    },
    'buffers' => function (string $who): array {
        ob_start();
        ob_start();
        echo "$who-";
        delay(0.02);
        echo "printed";
        return [ob_get_level(), ob_get_clean(), ob_get_clean()];
    },
    'end buffers' => function (string $who): array {
        while (ob_get_level()) {
            ob_end_clean();
        }
        ob_start();
        delay(0.02);
        echo $who;
        return [ob_get_level(), ob_get_clean()];
    },
    'slow' => fn (string $who): array => [$error("slow $who")],
    'quick' => fn (string $who): array => [$error("quick $who")],
    'own' => function (string $who) use ($error): array {
        set_error_handler(fn ($level, $message) => throw new ErrorException("own: $message"));
        delay(0.02);
        $own = $error($who);
        restore_error_handler();
        delay(0.02);
        return [$own, $error($who)];
    },
];
$server->get('/{what}/{who}', fn (string $what, string $who) => Response::json($does[urldecode($what)]($who)));
$server->get('/', fn () => Response::json(array_keys($does)));
PHP;
$server = new TestServer($program);
$all = json_decode($server->get('/')->body);
$alone = fn (string $what, string $who): string => (string) $server->get('/' . rawurlencode($what) . "/$who");
foreach ($all as $what) {
    echo "$what: ", $alone($what, 'anna'), "\n";
}
// Two concurrent handlers get the same results as one.
foreach ($all as $what) {
    foreach ($all as $other) {
        $expected = [$alone($what, 'anna'), $alone($other, 'bert')];
        $connections = [$server->connect(), $server->connect()];
        $connections[0]->start('GET', '/' . rawurlencode($what) . '/anna');
        usleep(3000);
        $connections[1]->start('GET', '/' . rawurlencode($other) . '/bert');
        $got = [(string) $connections[0]->answer(), (string) $connections[1]->answer()];
        if ($got !== $expected) {
            echo "$what and $other: ", implode(' ', $got), "\n";
        }
    }
}
var_dump($server->stop());
echo preg_replace('/^\S+ /m', '', $server->logged('/PHP warning|error/'));
?>
--EXPECT--
usort: 200 [[1,2,3,4,5,6],15]
uksort: 200 {"anna-1":2,"anna-2":1}
array_udiff: 200 ["anna-1"]
lazy: 200 ["lazy one!",true,"lazy two!","anna"]
strtok: 200 ["anna-1","anna-2","anna-3"]
serialize: 200 ["a:3:{i:0;O:4:\"Slow\":2:{i:0;s:4:\"anna\";i:1;O:8:\"stdClass\":0:{}}i:1;O:8:\"stdClass\":0:{}i:2;r:5;}","anna"]
buffers: 200 [2,"anna-printed",""]
end buffers: 200 [1,"anna"]
slow: 200 ["handled: slow anna"]
quick: 200 ["handled: quick anna"]
own: 200 ["own: anna","handled: anna"]
int(0)
