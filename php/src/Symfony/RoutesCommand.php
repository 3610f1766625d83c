<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Internal\FrontController;
use Symfony\Component\Console\Command\Command;
use Symfony\Component\Console\Helper\Table;
use Symfony\Component\Console\Input\{InputInterface, InputOption};
use Symfony\Component\Console\Output\OutputInterface;

/** Lists the server's own routes, which take precedence over those of the application: bin/console fermata:routes */
final class RoutesCommand extends Command
{
    protected static $defaultName = 'fermata:routes';
    protected static $defaultDescription = 'Lists the server\'s own routes';

    public function __construct(private readonly ServerRoutes $routes)
    {
        parent::__construct();
    }

    protected function configure(): void
    {
        $this->setName('fermata:routes')
            ->setDescription('Lists the server\'s own routes; debug:router lists those of the application')
            ->addOption('json', null, InputOption::VALUE_NONE, 'Print them as JSON');
    }

    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        $server = FrontController::server();
        $this->routes->addTo($server);
        $routes = $server->routes();
        if ($input->getOption('json')) {
            $output->writeln(json_encode($routes, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES), OutputInterface::OUTPUT_RAW);
            return Command::SUCCESS;
        }
        $table = new Table($output);
        $table->setHeaders(['Method', 'Path', 'Handler'])->setStyle('compact');
        foreach ($routes as $route) {
            $method = match ($route['kind']) {
                'static' => 'files',
                'websocket' => 'socket',
                default => $route['method'] === '' ? 'any' : $route['method'],
            };
            $table->addRow([$method, $route['path'], $route['handler']]);
        }
        $table->render();
        return Command::SUCCESS;
    }
}
