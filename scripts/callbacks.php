<?php
/**
 * Reads ext/fibers/callbacks.list, which classifies PHP's functions by the effect of a wait inside their callbacks.
 *
 *   php scripts/callbacks.php          writes ext/fibers/callbacks_list.h
 *   php scripts/callbacks.php --check  fails if that file is outdated, or if a function of this PHP that accepts a callback,
 *                                      closure or iterator has no class
 */

declare(strict_types=1);

const FROM = __DIR__ . '/../ext/fibers/callbacks.list';
const TO = __DIR__ . '/../ext/fibers/callbacks_list.h';
const FIXTURE = __DIR__ . '/../tests/fixtures/callbacks.php';
const CLASSES = ['waits', 'holds', 'registers'];
const TYPES = ['callable', 'closure', 'traversable', 'iterator', 'iteratoraggregate'];
/** Names of parameters that accept a callback but declare no type. */
const PARAMETERS = '/callback|callable|_func$|handler$/i';
/** Functions whose last variadic argument is a callback, which reflection does not show. */
const HIDDEN = '/^array_(u?diff|u?intersect)(_u(assoc|key)|_assoc)?$/';

/** @return array<string, string> class by name in lower case */
function classes(string $file): array
{
    $class = null;
    $found = [];
    foreach (file($file) as $at => $line) {
        $line = trim(preg_replace('/^#.*/', '', $line));
        if (preg_match('/^(\w+):(?!:)/', $line, $match)) {
            in_array($class = $match[1], CLASSES, true) || exit(fail(sprintf('line %d: no class is named %s', $at + 1, $class)));
            continue;
        }
        foreach (preg_split('/\s+/', $line, -1, PREG_SPLIT_NO_EMPTY) as $name) {
            $name = strtolower($name);
            isset($found[$name]) && $found[$name] !== $class && exit(fail(sprintf('line %d: %s has two classes', $at + 1, $name)));
            $found[$name] = $class;
        }
    }
    return $found;
}

function fail(string $why): int
{
    fwrite(STDERR, "callbacks: $why\n");
    return 1;
}

/** @return list<string> */
function types(?ReflectionType $type): array
{
    if ($type instanceof ReflectionNamedType) {
        return [strtolower($type->getName())];
    }
    return $type ? array_merge(...array_map(types(...), $type->getTypes())) : [];
}

function takesCallback(ReflectionFunctionAbstract $function): bool
{
    foreach ($function->getParameters() as $parameter) {
        if (array_intersect(types($parameter->getType()), TYPES) || preg_match(PARAMETERS, $parameter->getName())) {
            return true;
        }
    }
    $name = $function->getName();
    return preg_match(HIDDEN, $name) && str_contains(preg_replace('/^array_/', '', $name), 'u');
}

/** Returns the functions with callbacks in PHP's own extensions and in those that Fermata guards. @return list<string> */
function withCallbacks(): array
{
    $found = [];
    foreach (get_defined_functions()['internal'] as $name) {
        if (takesCallback(new ReflectionFunction($name))) {
            $found[] = $name;
        }
    }
    foreach (get_declared_classes() as $name) {
        $class = new ReflectionClass($name);
        foreach ($class->isInternal() ? $class->getMethods() : [] as $method) {
            if ($method->getDeclaringClass()->name === $class->name && $method->isInternal() && takesCallback($method)) {
                $found[] = strtolower("$name::{$method->getName()}");
            }
        }
    }
    return array_values(array_filter($found, fn ($name) => !str_starts_with($name, 'fermata\\')));
}

/** @param array<string, string> $classes */
function header_of(array $classes): string
{
    $lines = [];
    foreach ($classes as $name => $class) {
        if ($class === 'waits') {
            [$scope, $function] = str_contains($name, '::') ? explode('::', $name) : [null, $name];
            $scope = $scope === null ? 'NULL' : '"' . addslashes($scope) . '"';
            $lines[] = sprintf("\t{%s, %s},\n", $scope, $function === '*' ? 'NULL' : '"' . addslashes($function) . '"');
        }
    }
    sort($lines);
    return "/* Functions of PHP whose callbacks may wait. Generated from callbacks.list by scripts/callbacks.php. */\n"
        . implode('', $lines);
}

$classes = classes(FROM);
$header = header_of($classes);
if (($argv[1] ?? '') !== '--check') {
    file_put_contents(TO, $header);
    exit(0);
}
$status = $header === @file_get_contents(TO) ? 0 : fail('ext/fibers/callbacks_list.h is old; run php scripts/callbacks.php');
foreach (withCallbacks() as $name) {
    if (!isset($classes[$name]) && !isset($classes[preg_replace('/::.*/', '::*', $name)])) {
        $status = fail("$name takes a callback or an iterator and has no class in ext/fibers/callbacks.list");
    }
}
// The property test runs each function whose callback may wait, except functions that need a server.
$run = file_get_contents(FIXTURE);
foreach ($classes as $name => $class) {
    if ($class === 'waits' && in_array($name, withCallbacks(), true) && !str_starts_with($name, 'redis')
        && !str_contains($run, "'$name' =>")) {
        $status = fail("$name may wait in its callback, and no case of tests/fixtures/callbacks.php runs it");
    }
}
exit($status);
