<?php

declare(strict_types=1);

namespace Fermata\Development;

/**
 * Formats a value for dump(): like var_export(), so null, false, '' and 0 differ, but objects are shown by class and id.
 *
 * Reads properties as they are stored and calls no method of the application. Stops at DEPTH_MAX levels and at the
 * given number of bytes, so a large object graph costs no more than a small one.
 */
final class Dump
{
    private const DEPTH_MAX = 8;

    private string $text = '';
    /** @var array<int, true> ids of the objects around the current value */
    private array $around = [];

    private function __construct(private readonly int $bytesMax)
    {
    }

    public static function of(mixed $value, int $bytesMax): string
    {
        $dump = new self($bytesMax);
        $dump->value($value, 0);
        return strlen($dump->text) > $bytesMax ? substr($dump->text, 0, $bytesMax) . '…' : $dump->text;
    }

    private function value(mixed $value, int $depth): void
    {
        if ($value instanceof \UnitEnum) {
            $this->text .= $value::class . '::' . $value->name;
        } elseif (is_object($value)) {
            $this->object($value, $depth);
        } elseif (is_array($value)) {
            $this->entries('[', $value, ']', $depth);
        } elseif (is_resource($value)) {
            $this->text .= get_resource_type($value) . ' resource #' . get_resource_id($value);
        } else {
            $this->text .= is_string($value) ? var_export(substr($value, 0, $this->bytesMax), true) : var_export($value, true);
        }
    }

    private function object(object $value, int $depth): void
    {
        $id = spl_object_id($value);
        $name = $value::class . " #$id";
        if (isset($this->around[$id])) {
            $this->text .= "$name {…}";
            return;
        }
        $this->around[$id] = true;
        $properties = [];
        foreach ($value instanceof \Closure ? [] : get_mangled_object_vars($value) as $key => $property) {
            // Private and protected names are stored as "\0Class\0name" and "\0*\0name".
            $properties[substr((string) strrchr("\0$key", "\0"), 1)] = $property;
        }
        $this->entries("$name {", $properties, '}', $depth);
        unset($this->around[$id]);
    }

    /** @param array<mixed> $entries */
    private function entries(string $begin, array $entries, string $end, int $depth): void
    {
        $this->text .= $begin;
        if ($entries !== [] && $depth === self::DEPTH_MAX) {
            $this->text .= "…$end";
            return;
        }
        $indent = str_repeat('    ', $depth + 1);
        foreach ($entries as $key => $entry) {
            if (strlen($this->text) > $this->bytesMax) {
                return;
            }
            $this->text .= "\n$indent" . var_export($key, true) . ' => ';
            $this->value($entry, $depth + 1);
            $this->text .= ',';
        }
        $this->text .= $entries === [] ? $end : "\n" . str_repeat('    ', $depth) . $end;
    }
}
