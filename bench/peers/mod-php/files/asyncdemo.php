<?php
// Script of seed 002, which mod_php and PHP-FPM run in its own folder.
do {
    $fname = rand(1, 99999) . '.txt';
} while (file_exists($fname));

$s = '';
for ($i = 0; $i < 108000; $i++) {
    $n = rand(0, 57) + 65;
    $s .= chr($n);
}

file_put_contents($fname, $s);
$result = file_get_contents($fname);
echo $result;
