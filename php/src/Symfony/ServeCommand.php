<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Internal\{Number, Reload};
use Symfony\Bundle\FrameworkBundle\Console\Application;
use Symfony\Component\Console\Command\Command;
use Symfony\Component\Console\Input\{InputInterface, InputOption};
use Symfony\Component\Console\Output\OutputInterface;

/** Serves the application: bin/console fermata:serve */
final class ServeCommand extends Command
{
    protected static $defaultName = 'fermata:serve';
    protected static $defaultDescription = 'Serves the application';

    protected function configure(): void
    {
        $this->setName('fermata:serve')
            ->setDescription('Serves the application')
            ->addOption('listen', null, InputOption::VALUE_REQUIRED | InputOption::VALUE_IS_ARRAY, 'http://HOST:PORT or https://HOST:PORT')
            ->addOption('workers', null, InputOption::VALUE_REQUIRED, 'How many worker processes')
            ->addOption('public', null, InputOption::VALUE_REQUIRED, 'The folder of public files, from the project folder', 'public')
            ->addOption('worker-loop-max', null, InputOption::VALUE_REQUIRED, 'Requests after which a worker is replaced; 0 = never', '0');
    }

    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        $application = $this->getApplication();
        if (!$application instanceof Application) {
            $output->writeln('<error>fermata:serve needs the console of FrameworkBundle</error>');
            return Command::FAILURE;
        }
        $kernel = $application->getKernel();
        $listen = $input->getOption('listen');
        $workers = $input->getOption('workers');
        $reload = Reload::prepare(ReloadCommand::file($kernel));
        try {
            return (new Runner($kernel, new Options(
                $listen === [] ? null : $listen,
                $workers === null ? null : Number::of('--workers', $workers),
                $kernel->getProjectDir() . '/' . $input->getOption('public'),
                requestsMax: Number::of('--worker-loop-max', $input->getOption('worker-loop-max')),
            )))->run();
        } finally {
            $reload?->finish();
        }
    }
}
