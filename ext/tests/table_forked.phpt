--TEST--
Table: processes that a program forks share its rows, and take over the locks of one that was killed
--EXTENSIONS--
fermata
pcntl
posix
--FILE--
<?php
use Fermata\Table;
use Fermata\Table\Column;

$table = new Table(20, [Column::int('first'), Column::string('text', 5000), Column::int('last')]);
$children = [];
for ($i = 0; $i < 2; $i++) {
    if (($children[] = pcntl_fork()) === 0) {
        for ($n = 0; $n < 5000; $n++) {
            $table->increment('sum', 'first');
        }
        posix_kill(getmypid(), SIGKILL);
    }
}
for ($n = 0; $n < 5000; $n++) {
    $table->increment('sum', 'first');
}
array_map(fn (int $child) => pcntl_waitpid($child, $status), $children);
var_dump($table->value('sum', 'first'));

// Kill the child at any point, also in the middle of a change.
for ($round = 0; $round < 50; $round++) {
    if (($child = pcntl_fork()) === 0) {
        for ($n = 0; true; $n++) {
            $number = ($n * 7919) % 5000;
            $n % 3 ? $table->set('row' . $n % 5, ['first' => $number, 'text' => str_repeat('x', $number), 'last' => $number]) : $table->delete('row' . $n % 5);
        }
    }
    usleep(mt_rand(100, 3000));
    posix_kill($child, SIGKILL);
    // A zombie counts as dead.
    $table->increment('sum', 'first');
    $table->set("other$round", []);
    foreach ($table as $key => $row) {
        if (str_starts_with($key, 'row') && ($row['first'] !== $row['last'] || strlen($row['text']) !== $row['first'])) {
            echo "torn: $key\n";
        }
    }
    $table->delete("other$round");
    pcntl_waitpid($child, $status);
}
$table->clear();
for ($n = 0; $n < 20; $n++) {
    $table->set("new$n", ['first' => $n]);
}
var_dump(count($table), count(iterator_to_array($table)));
try {
    $table->set('more', []);
} catch (Fermata\Exception\BackpressureException $error) {
    echo $error->getMessage(), "\n";
}
?>
--EXPECT--
int(15000)
int(20)
int(20)
the table has all of its 20 rows; delete some, or declare it with more before the server runs
