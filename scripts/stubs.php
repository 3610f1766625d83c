<?php
/**
 * Writes php/stubs/fermata.php: the extension's classes for editors and static analysers.
 *
 *   php scripts/stubs.php [--check]     --check fails if the file differs from the output
 *
 * The source is ext/fermata.stub.php, whose comments may contain only types that PHP's arginfo generator accepts. This script
 * converts them: "callable $handler function (Request $request): Response|Hold" becomes a callable type with parameters,
 * "array $names list<string> …" becomes a list, and "see get() for the arguments" becomes the arguments of get(). Templates cannot
 * appear in that file and are listed below.
 */

declare(strict_types=1);

const SOURCE = __DIR__ . '/../ext/fermata.stub.php';
const TARGET = __DIR__ . '/../php/stubs/fermata.php';

const WORK = ['@template T', '@param callable(): T $work', '@return T'];

/** Lines that are added to comments. A line for a parameter replaces the line of the source. */
const ADDED = [
    'async' => ['@template T', '@param callable(): T $work', '@return Future<T>'],
    'await' => ['@template T', '@param Future<T> $future', '@return T'],
    'all' => ['@template T', '@param (callable(): T)|Future<T> ...$works', '@return array<array-key, T>'],
    'race' => ['@template T', '@param (callable(): T)|Future<T> ...$works', '@return T'],
    'timeout' => WORK,
    'shield' => WORK,
    'Future' => ['@template-covariant T'],
    'Future::await' => ['@return T'],
    'Cancellation::run' => WORK,
    'Mutex::synchronized' => WORK,
    'Semaphore::run' => WORK,
    'Pool' => ['@template C'],
    'Pool::__construct' => ['@param \Closure(): C $connect', '@param (\Closure(C): bool)|null $check', '@param (\Closure(C): void)|null $reset'],
    'Pool::use' => ['@template T', '@param callable(C): T $work', '@return T'],
    'Table' => ['@implements \IteratorAggregate<string, array<string, int|float|string>>'],
    'Table::getIterator' => ['@return \Iterator<string, array<string, int|float|string>>'],
    'Pieces' => ['@implements \Iterator<int, string>'],
    'Queue' => ['@template T', '@implements \IteratorAggregate<int, T>'],
    'Queue::push' => ['@param T $item'],
    'Queue::tryPush' => ['@param T $item'],
    'Queue::pop' => ['@return T'],
    'Queue::tryPop' => ['@template D', '@param D $default', '@return T|D'],
    'Queue::getIterator' => ['@return \Iterator<int, T>'],
];

/** Type of a handler, which accepts the request or the parameters of its path by name. */
const HANDLER = '(callable(Request): (Response|Hold))|(callable(never...): (Response|Hold))';
/**
 * Type of a handler for Psalm, which rejects every handler for `never`. PHPStan also reads Psalm's tags, so it needs a separate
 * tag.
 */
const HANDLER_PSALM = '(callable(Request): (Response|Hold))|(callable(mixed...): (Response|Hold))';

/** Converts "Request $request, callable $next" to a list of types. */
function parameterTypes(string $parameters): string
{
    $types = [];
    foreach ($parameters === '' ? [] : explode(',', $parameters) as $parameter) {
        // A parameter without a type, such as $connection, is mixed.
        $types[] = preg_match('~^\s*(\S+)\s+\$~', $parameter, $found) ? $found[1] : 'mixed';
    }
    return implode(', ', $types);
}

/** Converts a type written in words in a line of a comment. */
function typed(string $line): string
{
    $pattern = '~^@param (callable|\\\\Closure)(\|null)? (\$\w+) function \(([^)]*)\): ([\w\\\\|<>]+)(.*)$~s';
    if (preg_match($pattern, $line, $found)) {
        [, $kind, $null, $name, $parameters, $result, $rest] = $found;
        $type = "$kind(" . parameterTypes($parameters) . '): ' . (str_contains($result, '|') ? "($result)" : $result);
        if ($type === 'callable(Request): (Response|Hold)') {
            $type = HANDLER;
        } elseif ($null !== '') {
            $type = "($type)";
        }
        return "@param $type$null $name" . ltrim($rest, ',;');
    }
    if (preg_match('~^@param array(\|null)? (\$\w+) ((?:list|array)<[^>]*>)(.*)$~s', $line, $found)) {
        return "@param $found[3]$found[1] $found[2]$found[4]";
    }
    return $line;
}

/** Returns the tag and parameter of a line: "@param $handler", "@return"; "" for text. */
function subject(string $line): string
{
    return match (true) {
        (bool) preg_match('~^@param [^$]*(\$\w+)~', $line, $found) => "@param $found[1]",
        str_starts_with($line, '@return') => '@return',
        default => '',
    };
}

/** @return list<string> paragraphs and tags of a comment, each with its continuation lines */
function items(string $comment): array
{
    $items = [];
    foreach (preg_split('~\R~', trim(preg_replace('~^\s*/\*\*|\*/\s*$~', '', $comment))) as $line) {
        $line = preg_replace('~^\s*\* ?~', '', $line);
        if (preg_match('~^\s{2,}\S~', $line) && $items !== [] && str_starts_with(end($items), '@')) {
            $items[] = array_pop($items) . "\n" . rtrim($line);
        } elseif (!preg_match('~^@(strict-properties|not-serializable|generate-)~', $line)) {
            $items[] = rtrim($line);
        }
    }
    return $items;
}

/**
 * Returns the tag, followed by a tag for each analyser if the analysers interpret its type differently.
 *
 * @return list<string>
 */
function forAnalysers(string $item): array
{
    if (!preg_match('~^@param ' . preg_quote(HANDLER) . '(\|null)? (\$\w+)~', $item, $found)) {
        return [$item];
    }
    [, $null, $name] = $found;
    return [$item, '@phpstan-param ' . HANDLER . "$null $name", '@psalm-param ' . HANDLER_PSALM . "$null $name"];
}

/** @param list<string> $items */
function comment(array $items, string $indent): string
{
    $items = array_merge(...array_map(forAnalysers(...), $items));
    while ($items !== [] && end($items) === '') {
        array_pop($items);
    }
    if ($items === []) {
        return '';
    }
    if (count($items) === 1 && !str_contains($items[0], "\n")) {
        return "$indent/** $items[0] */\n";
    }
    $lines = explode("\n", implode("\n", $items));
    return "$indent/**\n" . implode('', array_map(fn ($line) => rtrim("$indent * $line") . "\n", $lines)) . "$indent */\n";
}

function stubs(string $source): string
{
    $declaration = '(?<indent>[ ]*)(?<line>(?:final |abstract |readonly )*(?:class|interface|enum) (?<class>\w+)'
        . '|(?:(?:public|private|protected|static|abstract|final) )*function (?<function>\w+))';
    $class = null;
    $arguments = [];
    $used = [];
    $body = preg_replace_callback(
        "~(?<comment>^[ ]*/\*\*(?:(?!\*/).)*\*/\n)?^$declaration~ms",
        function (array $found) use (&$class, &$arguments, &$used): string {
            $isMember = strlen($found['indent']) > 4;
            if (!$isMember) {
                $class = ($found['class'] ?? '') !== '' ? $found['class'] : null;
            }
            $name = match (true) {
                $isMember => "$class::" . ($found['function'] ?? ''),
                $class !== null => $class,
                default => $found['function'],
            };
            $items = array_map(typed(...), items($found['comment']));
            if ($isMember && preg_match('~see (\w+)\(\) for the arguments~', implode(' ', $items), $seen)) {
                $items = [...$items, ...$arguments["$class::$seen[1]"] ?? $arguments["Server::$seen[1]"] ?? []];
            }
            $added = ADDED[$name] ?? [];
            $used[$name] = true;
            $replaced = array_filter(array_map(subject(...), $added));
            $items = array_values(array_filter($items, fn ($item) => !in_array(subject($item), $replaced, true)));
            if ($added !== [] && $items !== [] && !str_starts_with(end($items), '@')) {
                $items[] = '';
            }
            $items = [...$items, ...$added];
            $arguments[$name] = array_values(array_filter($items, fn ($item) => str_starts_with(subject($item), '@param')));
            return comment($items, $found['indent']) . $found['indent'] . $found['line'];
        },
        preg_replace('~^/\*\* @generate-class-entries \*/\R\R?~m', '', preg_replace('~^<\?php\s+~', '', $source)),
    );
    $unused = array_diff_key(ADDED, $used);
    if ($unused !== []) {
        throw new RuntimeException('these are no longer in ext/fermata.stub.php: ' . implode(', ', array_keys($unused)));
    }
    return "<?php\n\n/**\n * The classes of the extension, for editors and static analysers; never loaded.\n"
        . " * Written by scripts/stubs.php from ext/fermata.stub.php.\n */\n\n$body";
}

$stubs = stubs(file_get_contents(SOURCE));
if (($argv[1] ?? '') === '--check') {
    if (@file_get_contents(TARGET) !== $stubs) {
        fwrite(STDERR, "php/stubs/fermata.php is not what scripts/stubs.php writes: run make generate\n");
        exit(1);
    }
    exit;
}
@mkdir(dirname(TARGET));
file_put_contents(TARGET, $stubs);
