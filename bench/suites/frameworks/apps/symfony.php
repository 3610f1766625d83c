<?php

declare(strict_types=1);

// One script for both PHP-FPM and Fermata.

use Fermata\Symfony\Runtime;

require __DIR__ . '/symfony-kernel.php';

$runtime = new Runtime(['project_dir' => getenv('BENCH_FOLDER') ?: $_SERVER['BENCH_FOLDER'], 'disable_dotenv' => true, 'env' => 'prod', 'debug' => false, 'fermata' => ['public' => __DIR__]]);
[$application, $arguments] = $runtime->getResolver(static fn(): BenchKernel => new BenchKernel('prod', false))->resolve();
exit($runtime->getRunner($application(...$arguments))->run());
