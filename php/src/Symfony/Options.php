<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Internal\Number;

/** Options for serving a Symfony application. The server's settings are the default for addresses and workers. */
final readonly class Options
{
    /**
     * @param string|list<string>|null $listen
     * @param string|null $public folder of public files
     * @param int $requestsMax number of requests after which a worker is replaced; 0 = never
     * @param int|null $uploadBytes maximum size of an uploaded file; a larger file gets the error UPLOAD_ERR_INI_SIZE
     */
    public function __construct(
        public string|array|null $listen = null,
        public ?int $workers = null,
        public ?string $public = null,
        public ?int $bodyBytes = null,
        public int $requestsMax = 0,
        public ?int $uploadBytes = null,
    ) {}

    /**
     * Parses APP_RUNTIME_OPTIONS: `worker_loop_max`, and the constructor's arguments under `fermata`.
     *
     * @param array<string, mixed> $options
     * @throws \InvalidArgumentException for an unknown option or an invalid number
     */
    public static function of(array $options): self
    {
        $own = $options['fermata'] ?? [];
        if (!is_array($own)) {
            throw new \InvalidArgumentException('the runtime option fermata is an array, such as ["listen" => "http://127.0.0.1:8080"], not ' . get_debug_type($own));
        }
        $unknown = array_diff_key($own, ['listen' => 1, 'workers' => 1, 'public' => 1, 'body_bytes' => 1, 'upload_bytes' => 1]);
        if ($unknown !== []) {
            throw new \InvalidArgumentException('unknown runtime options of fermata: ' . implode(', ', array_keys($unknown))
                . '; there are listen, workers, public, body_bytes and upload_bytes');
        }
        $loops = $options['worker_loop_max'] ?? $_SERVER['FERMATA_LOOP_MAX'] ?? $_ENV['FERMATA_LOOP_MAX'] ?? 0;
        $script = $_SERVER['SCRIPT_FILENAME'] ?? '';
        foreach (['listen' => 'an address, or a list of them', 'public' => 'a folder'] as $name => $kind) {
            if (isset($own[$name]) && !is_string($own[$name]) && ($name === 'public' || !is_array($own[$name]) || $own[$name] === [])) {
                throw new \InvalidArgumentException("the runtime option fermata.$name is $kind, not " . ($own[$name] === [] ? 'an empty list' : get_debug_type($own[$name])));
            }
        }
        return new self(
            $own['listen'] ?? null,
            isset($own['workers']) ? Number::of('fermata.workers', $own['workers']) : null,
            $own['public'] ?? ($script === '' ? null : dirname($script)),
            isset($own['body_bytes']) ? Number::of('fermata.body_bytes', $own['body_bytes']) : null,
            Number::of('worker_loop_max', $loops),
            isset($own['upload_bytes']) ? Number::of('fermata.upload_bytes', $own['upload_bytes']) : null,
        );
    }
}
