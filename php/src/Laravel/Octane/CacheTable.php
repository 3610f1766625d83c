<?php

declare(strict_types=1);

namespace Fermata\Laravel\Octane;

use Fermata\Exception\BackpressureException;

/**
 * Table of Cache::store('octane'). A full table removes expired rows.
 *
 * @internal
 */
final class CacheTable extends Table
{
    public function set(string $key, array $values): bool
    {
        try {
            return parent::set($key, $values);
        } catch (BackpressureException $full) {
            if ($this->forgetExpired() === 0) {
                throw $full;
            }
            return parent::set($key, $values);
        }
    }

    private function forgetExpired(): int
    {
        $forgotten = 0;
        $now = time();
        foreach ($this as $key => $record) {
            if ($record['expiration'] <= $now && $this->delete((string) $key)) {
                $forgotten++;
            }
        }
        return $forgotten;
    }
}
