<?php

declare(strict_types=1);

namespace App;

use App\Controller\NotesController;
use Fermata\Symfony\FermataBundle;
use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Bundle\TwigBundle\TwigBundle;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpKernel\Kernel as Base;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;

final class Kernel extends Base
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        return [new FrameworkBundle(), new TwigBundle(), new FermataBundle()];
    }

    public function getProjectDir(): string
    {
        return dirname(__DIR__);
    }

    public function getCacheDir(): string
    {
        return $this->getVarDir() . "/cache/$this->environment";
    }

    public function getLogDir(): string
    {
        return $this->getVarDir() . '/log';
    }

    /** Returns the writable folder for notes, sessions and caches. */
    private function getVarDir(): string
    {
        return $_SERVER['APP_VAR'] ?? $this->getProjectDir() . '/var';
    }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', [
            'secret' => $_SERVER['APP_SECRET'] ?? 'of the example',
            'http_method_override' => false,
            'session' => ['storage_factory_id' => 'session.storage.factory.native', 'handler_id' => null, 'save_path' => $this->getVarDir(), 'cookie_secure' => 'auto', 'cookie_samesite' => 'lax'],
            'router' => ['utf8' => true],
        ]);
        $container->extension('twig', ['default_path' => '%kernel.project_dir%/templates']);
        $services = $container->services()->defaults()->autowire()->autoconfigure();
        $services->set(Notes::class)->arg('$file', $this->getVarDir() . '/notes.json');
        $services->set(NotesController::class)->public();
        $services->set('logger', \Psr\Log\NullLogger::class);
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        $routes->add('notes', '/')->controller([NotesController::class, 'show'])->methods(['GET']);
        $routes->add('add', '/notes')->controller([NotesController::class, 'add'])->methods(['POST']);
        $routes->add('events', '/events')->controller([NotesController::class, 'events'])->methods(['GET']);
    }
}
