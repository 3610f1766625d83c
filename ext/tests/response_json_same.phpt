--TEST--
Response::json() writes what json_encode() writes, small or not, plain or not
--EXTENSIONS--
fermata
--FILE--
<?php

use Fermata\Response;

const FLAGS = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE;

$nested = 1;
for ($i = 0; $i < 20; $i++) {
    $nested = [$nested];
    $deep[] = $nested;
}
$shared = 'shared';
$values = [
    null, true, false, 0, -1, PHP_INT_MAX, PHP_INT_MIN, 1.5, 0.1, 1e100, -0.0, '', 'a', '/', '<a href="x">', "\x7f",
    [], [[]], ['status' => 'OK'], [1, 2, 3], [1 => 'a', 2 => 'b'], ['0' => 'a', '1' => 'b'], ['' => 1], [-5 => 1],
    ['a' => ['b' => ['c' => [null, true, false]]], 'd' => 'e'], (object) [], (object) ['a' => 1], [new ArrayObject([1])],
    ['key with "quotes"' => 1], ["key\n" => 1], ['ü' => 'ü'], ["\u{2028}" => "\u{2029}"], ["\0" => "\0"],
    [1, 'reference' => &$shared], (array) new class { private int $hidden = 1; },
    [PHP_INT_MAX => PHP_INT_MIN], $deep, range(1, 300), array_fill(0, 100, 'text'), JsonSerializable::class,
    new class implements JsonSerializable {
        public function jsonSerialize(): mixed
        {
            return ['own' => 1];
        }
    },
];
// Every byte at each position of an eight-byte word, alone and among others.
for ($byte = 0; $byte < 128; $byte++) {
    for ($before = 0; $before < 17; $before += 3) {
        for ($after = 0; $after < 9; $after += 4) {
            $values[] = [str_repeat('~', $before) . chr($byte) . str_repeat('!', $after)];
        }
    }
}
// Lengths around the limit of the small buffer.
for ($len = 495; $len < 520; $len++) {
    $values[] = str_repeat('x', $len);
    $values[] = ['k' => str_repeat('x', $len)];
    $values[] = [str_repeat('x', $len), 123, true];
    $values[] = array_fill(0, intdiv($len, 2), 1);
}
foreach ($values as $value) {
    $expected = json_encode($value, FLAGS);
    $body = Response::json($value)->body();
    if ($body !== $expected) {
        echo 'expected ', $expected, ', got ', $body, "\n";
    }
}
json_encode("\xff");
Response::json([1]);
echo json_last_error_msg(), "\n";
foreach (["\xff", ["\xff" => 1], [NAN], ['a' => INF]] as $bad) {
    try {
        Response::json($bad);
        echo "accepted\n";
    } catch (JsonException $exception) {
        echo $exception->getMessage(), "\n";
    }
}
echo "same\n";
?>
--EXPECT--
No error
Malformed UTF-8 characters, possibly incorrectly encoded
Malformed UTF-8 characters, possibly incorrectly encoded
Inf and NaN cannot be JSON encoded
Inf and NaN cannot be JSON encoded
same
