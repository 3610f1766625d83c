<?php

declare(strict_types=1);

// Kernel, router and one Twig template.

use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Bundle\TwigBundle\TwigBundle;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;
use Twig\Environment;

require_once __DIR__ . '/autoload.php';
foreach (['Bundle/FrameworkBundle', 'Bundle/TwigBundle', 'Component/Runtime', 'Component/Console', 'Component/Dotenv', 'Component/Yaml'] as $package) {
    require_once "Symfony/$package/autoload.php";
}

final class BenchKernel extends Kernel
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        return [new FrameworkBundle(), new TwigBundle()];
    }

    public function getProjectDir(): string
    {
        return (string) ($_SERVER['BENCH_FOLDER'] ?? getenv('BENCH_FOLDER'));
    }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', ['secret' => 'bench', 'http_method_override' => false, 'router' => ['utf8' => true]]);
        $container->extension('twig', ['default_path' => __DIR__]);
        $container->services()->set('logger', Psr\Log\NullLogger::class);
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        $routes->add('page', '/books/{id}')->controller([self::class, 'show'])->requirements(['id' => '\d+']);
    }

    public function show(int $id, Environment $twig): Response
    {
        return new Response($twig->render('page.html.twig', ['id' => $id, 'items' => range(1, 20)]));
    }
}
