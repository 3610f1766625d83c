--TEST--
Response::json(): what cannot be encoded throws JsonException, or what JsonSerializable threw
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{Event, Hold, Response};

thrown(fn() => Response::json("\xff"));
thrown(fn() => Event::json(NAN));
thrown(fn() => Hold::sse('a')->as('u', ['a' => fopen('php://memory', 'r')]));
thrown(fn() => Response::json(new class implements JsonSerializable {
    public function jsonSerialize(): mixed
    {
        throw new DomainException('mine');
    }
}));
$loop = [];
$loop['a'] = &$loop;
thrown(fn() => Response::json($loop));
try {
    Response::json(INF);
} catch (JsonException $error) {
    var_dump($error->getCode() === JSON_ERROR_INF_OR_NAN);
}
?>
--EXPECT--
JsonException: Malformed UTF-8 characters, possibly incorrectly encoded
JsonException: Inf and NaN cannot be JSON encoded
JsonException: Type is not supported
DomainException: mine
JsonException: Recursion detected
bool(true)
