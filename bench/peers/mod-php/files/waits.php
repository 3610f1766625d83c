<?php
// Waits for the backend in BENCH_BACKEND.
header('Content-Type: text/plain');
echo file_get_contents($_SERVER['BENCH_BACKEND']);
