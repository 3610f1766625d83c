<?php
// Script of seed 002 without the loop that generates the text.
do {
    $fname = rand(1, 99999) . '.txt';
} while (file_exists($fname));

file_put_contents($fname, str_repeat('x', 108000));
echo file_get_contents($fname);
