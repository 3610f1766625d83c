--TEST--
Table: rows, sums, iteration and what does not fit
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\Table;
use Fermata\Table\Column;

$table = new Table(rows: 3, columns: [Column::string('name', bytes: 8), Column::int('votes'), Column::float('score'), Column::int('7')]);
var_dump($table->rows, $table->keyBytes, $table->bytes > 500, array_map(fn (Column $column) => "$column->name {$column->type->value} $column->bytes", $table->columns));

var_dump($table->get('a'), $table->value('a', 'votes'), $table->exists('a'), count($table));
$table->set('a', ['name' => 'Ann', 'votes' => 3]);
$table->set('a', ['score' => 1, 7 => -1]);
var_dump($table->get('a'), $table->value('a', 'name'), $table->exists('a'), count($table));

var_dump($table->increment('a', 'votes'), $table->increment('a', 'score', 0.5), $table->decrement('a', 'votes', 10), $table->decrement('42', 'score', 2));
foreach ($table as $key => $row) {
    var_dump($key);
    var_dump($row['votes'], $row['score']);
}
$binary = "\0\xff\0";
$table->set($binary, ['name' => "\xff\0\xfe"]);
var_dump(bin2hex($table->value($binary, 'name')));

function thrown(callable $call): void
{
    try {
        $call();
        echo "nothing was thrown\n";
    } catch (Throwable $error) {
        echo $error::class, ': ', $error->getMessage(), "\n";
    }
}
thrown(fn () => $table->set('b', ['name' => 'x']));
thrown(fn () => $table->increment('b', 'votes'));
thrown(fn () => $table->set('', []));
thrown(fn () => $table->get(str_repeat('k', 65)));
thrown(fn () => $table->set('a', ['nothing' => 1]));
thrown(fn () => $table->set('a', ['votes' => 99, 'name' => 'too long for it']));
thrown(fn () => $table->set('a', ['votes' => '1']));
thrown(fn () => $table->set('a', ['votes' => 1.0]));
thrown(fn () => $table->set('a', ['score' => []]));
thrown(fn () => $table->set('a', ['name' => null]));
thrown(fn () => $table->value('a', 'nothing'));
thrown(fn () => $table->increment('a', 'name'));
thrown(fn () => $table->increment('a', 'votes', 0.5));
thrown(fn () => $table->increment('a', 'votes', PHP_INT_MIN));
thrown(fn () => $table->decrement('a', 'votes', PHP_INT_MIN));
thrown(fn () => (function () use ($table) { foreach ($table as &$row) { } })());
thrown(fn () => $table->rows = 1);
thrown(fn () => clone $table);
thrown(fn () => serialize($table));
thrown(fn () => $table->__construct(1, [Column::int('x')]));
var_dump($table->value('a', 'votes'));

var_dump($table->delete('a'), $table->delete('a'), count($table));
$table->set('b', []);
var_dump($table->get('b'));
$table->clear();
var_dump(count($table), iterator_to_array($table));

thrown(fn () => new Table(0, [Column::int('x')]));
thrown(fn () => new Table(1 << 25, [Column::int('x')]));
thrown(fn () => new Table(1, []));
thrown(fn () => new Table(1, ['x']));
thrown(fn () => new Table(1, [Column::int('x'), Column::float('x')]));
thrown(fn () => new Table(1, [Column::int('x')], keyBytes: 1025));
thrown(fn () => new Table(1, [Column::string('x', 1 << 26), Column::string('y', 1)]));
thrown(fn () => new Table(1 << 24, [Column::string('x', (1 << 26) - 8)]));
thrown(fn () => Column::int(''));
thrown(fn () => Column::string('x', 0));
thrown(fn () => new Table(1, [(new ReflectionClass(Column::class))->newInstanceWithoutConstructor()]));

// The memory is freed with the object.
for ($i = 0; $i < 2000; $i++) {
    (new Table(1 << 20, [Column::string('x', 1 << 10)]))->set('a', ['x' => 'y']);
}

// Calls leak no memory, nor do calls that fail.
$work = function () use ($table): void {
    for ($i = 0; $i < 1000; $i++) {
        $table->set('a', ['name' => "n$i", 7 => $i]);
        $table->increment("k$i", 'score', 0.5);
        $table->value('a', 'name');
        foreach ($table as $key => $row) {
            $table->get($key);
            break;
        }
        try {
            $table->set('a', [7 => 1, "c$i" => 1]);
        } catch (Fermata\Exception\MisuseError) {
        }
        $table->delete("k$i");
    }
};
$work();
$before = memory_get_usage();
$work();
var_dump(memory_get_usage() - $before);
echo "done\n";
?>
--EXPECTF--
int(3)
int(64)
bool(true)
array(4) {
  [0]=>
  string(13) "name string 8"
  [1]=>
  string(11) "votes int 8"
  [2]=>
  string(13) "score float 8"
  [3]=>
  string(7) "7 int 8"
}
NULL
NULL
bool(false)
int(0)
array(4) {
  ["name"]=>
  string(3) "Ann"
  ["votes"]=>
  int(3)
  ["score"]=>
  float(1)
  [7]=>
  int(-1)
}
string(3) "Ann"
bool(true)
int(1)
int(4)
float(1.5)
int(-6)
float(-2)
string(1) "a"
int(-6)
float(1.5)
string(2) "42"
int(0)
float(-2)
string(6) "ff00fe"
Fermata\Exception\BackpressureException: the table has all of its 3 rows; delete some, or declare it with more before the server runs
Fermata\Exception\BackpressureException: the table has all of its 3 rows; delete some, or declare it with more before the server runs
Fermata\Exception\MisuseError: a key of this table has 1 to 64 bytes, not 0
Fermata\Exception\MisuseError: a key of this table has 1 to 64 bytes, not 65
Fermata\Exception\MisuseError: the table has no column "nothing"
Fermata\Exception\MisuseError: column "name" takes at most 8 bytes, not 15; declare it with more
Fermata\Exception\MisuseError: column "votes" takes an int, not string
Fermata\Exception\MisuseError: column "votes" takes an int, not float
Fermata\Exception\MisuseError: column "score" takes a number, not array
Fermata\Exception\MisuseError: column "name" takes a string, not null
Fermata\Exception\MisuseError: the table has no column "nothing"
Fermata\Exception\MisuseError: column "name" has strings, which nothing can be added to
Fermata\Exception\MisuseError: column "votes" takes an int, not float
Fermata\Exception\MisuseError: the sum does not fit into 64 bits
Fermata\Exception\MisuseError: the opposite of PHP_INT_MIN is no int
Fermata\Exception\MisuseError: foreach gives copies of rows, so not by reference; set() changes one
Error: Cannot modify readonly property Fermata\Table::$rows
Error: Trying to clone an uncloneable object of class Fermata\Table
Exception: Serialization of 'Fermata\Table' is not allowed
Fermata\Exception\MisuseError: the object is already constructed; create a new one
int(-6)
bool(true)
bool(false)
int(2)
array(4) {
  ["name"]=>
  string(0) ""
  ["votes"]=>
  int(0)
  ["score"]=>
  float(0)
  [7]=>
  int(0)
}
int(0)
array(0) {
}
Fermata\Exception\MisuseError: a table has 1 to 16777216 rows, not 0
Fermata\Exception\MisuseError: a table has 1 to 16777216 rows, not 33554432
Fermata\Exception\MisuseError: a table has 1 to 256 columns, not 0
TypeError: Fermata\Table::__construct(): Argument #2 ($columns) must be a list of Fermata\Table\Column, string given in it
Fermata\Exception\MisuseError: the table has two columns "x"
Fermata\Exception\MisuseError: keyBytes is 1 to 1024, not 1025
Fermata\Exception\MisuseError: strings have at least 1 byte, and all columns of a row at most 67108864
Fermata\Exception\ConfigurationException: there are no %d bytes for a table of 16777216 rows (%s); declare fewer, or shorter strings
Fermata\Exception\MisuseError: the name of a column has 1 to 64 bytes, not 0
Fermata\Exception\MisuseError: column "x" can have 1 to 67108864 bytes, not 0
TypeError: Fermata\Table::__construct(): Argument #2 ($columns) must be a list of Fermata\Table\Column, Fermata\Table\Column given in it
int(0)
done
