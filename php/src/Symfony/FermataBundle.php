<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Channels;
use Symfony\Component\DependencyInjection\Argument\TaggedIteratorArgument;
use Symfony\Component\DependencyInjection\{ContainerBuilder, Reference};
use Symfony\Component\HttpKernel\Bundle\Bundle;

/**
 * Registers Fermata\Channels for publishing, a Mercure hub that publishes to the same channels, and the console commands
 * fermata:serve, fermata:reload and fermata:routes. Injects Fermata\Request into controllers. Services that implement
 * RoutesInterface add routes that the server handles without Symfony's kernel.
 */
final class FermataBundle extends Bundle
{
    private const ROUTES = 'fermata.routes';

    public function build(ContainerBuilder $container): void
    {
        parent::build($container);
        $container->registerForAutoconfiguration(RoutesInterface::class)->addTag(self::ROUTES);
        $container->register(ServerRoutes::class)->setArguments([new TaggedIteratorArgument(self::ROUTES)])->setPublic(true);
        $container->register(Channels::class);
        $container->addCompilerPass(new HubPass());
        $container->register(RequestResolver::class)->addTag('controller.argument_value_resolver', ['priority' => 150]);
        $container->register(ServeCommand::class)->addTag('console.command', ['command' => 'fermata:serve']);
        $container->register(ReloadCommand::class)->addTag('console.command', ['command' => 'fermata:reload']);
        $container->register(RoutesCommand::class)->setArguments([new Reference(ServerRoutes::class)])->addTag('console.command', ['command' => 'fermata:routes']);
    }

    public function getPath(): string
    {
        return __DIR__;
    }
}
