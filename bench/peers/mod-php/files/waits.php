<?php
// A request that waits for a backend.
header('Content-Type: text/plain');
echo file_get_contents($_SERVER['BENCH_BACKEND']);
