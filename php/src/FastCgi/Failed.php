<?php

declare(strict_types=1);

namespace Fermata\FastCgi;

/**
 * Thrown if the FastCGI server returns no valid response. The exception code is the HTTP status for the client.
 *
 * @internal
 */
final class Failed extends \RuntimeException {}
