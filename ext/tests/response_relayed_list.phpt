--TEST--
Response::relayed(): a list that a value's own code replaces while it is read is read as it was
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\Response;

final class Emptying
{
    public function __construct(private readonly bool $throws) {}

    public function __toString(): string
    {
        $GLOBALS['list'] = [];
        // Reuse memory that was freed.
        $GLOBALS['others'] = array_map(static fn (int $number): array => [$number, "other $number", 'other'], range(1, 100));
        return $this->throws ? throw new Exception('of its own') : 'of an object';
    }
}

function made(bool $throws): array
{
    // No literals: PHP never frees them.
    return [new Emptying($throws), str_repeat('b', 3), strrev('dc')];
}

$list = made(false);
echo json_encode(Response::relayed(200, '', ['X-List' => &$list, 'X-Next' => 'a'])->headers()), "\n";

$list = made(true);
try {
    Response::relayed(200, '', ['X-List' => &$list]);
} catch (Exception $error) {
    echo $error->getMessage(), "\n";
}
var_dump($list);

// A list that grows while it is read.
$list = [new class { function __toString(): string { $GLOBALS['list'][] = 'added'; return 'of an object'; } }, strrev('dc')];
echo json_encode(Response::relayed(200, '', ['X-List' => &$list])->headers()), ' ', count($list), "\n";
?>
--EXPECT--
{"X-List":["of an object","bbb","cd"],"X-Next":["a"]}
of its own
array(0) {
}
{"X-List":["of an object","cd"]} 3
