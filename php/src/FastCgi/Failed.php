<?php

declare(strict_types=1);

namespace Fermata\FastCgi;

/**
 * Why a program has given no response; its code is the status that the client gets.
 *
 * @internal
 */
final class Failed extends \RuntimeException {}
