<?php

/**
 * Writes one Markdown page per class of ext/fermata.stub.php, and an index: `php reference.php STUB FOLDER`.
 *
 * Needs PHP-Parser (Debian: php-parser), like the generator of arginfo.
 */

declare(strict_types=1);

use PhpParser\Node\Stmt;
use PhpParser\PrettyPrinter\Standard;

if ($argc !== 3 || !is_file($argv[1])) {
    fwrite(STDERR, "usage: php reference.php STUB FOLDER\n");
    exit(2);
}
error_reporting(E_ALL & ~E_DEPRECATED);
require '/usr/share/php/PhpParser/autoload.php';

/** A doc comment of the stub: its text, and its tags in order. */
final class Doc
{
    public string $text = '';
    /** @var list<array{string, string}> */
    public array $tags = [];

    public function __construct(?string $comment)
    {
        $lines = preg_split('/\n/', preg_replace('~^/\*\*|\*/$~', '', trim($comment ?? '')));
        $last = null;
        foreach ($lines as $line) {
            $line = preg_replace('/^\s*\* ?/', '', rtrim($line));
            if (preg_match('/^@([a-z-]+)\s*(.*)$/', ltrim($line), $match)) {
                $this->tags[] = [$match[1], $match[2]];
                $last = array_key_last($this->tags);
            } elseif ($last !== null && trim($line) !== '') {
                $this->tags[$last][1] .= ' ' . trim($line);
            } else {
                $last = null;
                $this->text .= "$line\n";
            }
        }
        $this->text = trim($this->text);
    }

    /** Returns the texts of all tags with this name. @return list<string> */
    public function of(string $tag): array
    {
        return array_column(array_filter($this->tags, static fn (array $it): bool => $it[0] === $tag), 1);
    }
}

/** Page of a class, interface or enum. */
final class Page
{
    /**
     * @param array<string, string> $files page of each class, by its full name
     * @param array<string, true> $methods methods that have a heading, as FILE#method
     */
    public function __construct(
        private readonly string $namespace,
        private readonly array $files,
        private readonly array $methods,
        private readonly Standard $printer,
    )
    {
    }

    public function of(Stmt\ClassLike $class): string
    {
        $doc = new Doc($class->getDocComment()?->getText());
        $name = "{$this->namespace}\\{$class->name}";
        $page = "# $name\n\n```php\n{$this->head($class)}\n```\n\n{$this->linked($doc->text)}\n";
        foreach ($class->stmts as $part) {
            $page .= match (true) {
                $part instanceof Stmt\EnumCase => "\n## {$part->name}\n\n{$this->linked((new Doc($part->getDocComment()?->getText()))->text)}\n",
                $part instanceof Stmt\ClassConst && !$part->isPrivate() => $this->constants($part),
                $part instanceof Stmt\Property && $part->isPublic() => $this->property($part),
                $part instanceof Stmt\ClassMethod && $part->isPublic() => $this->method($part),
                default => '',
            };
        }
        return $page;
    }

    private function head(Stmt\ClassLike $class): string
    {
        $bare = clone $class;
        $bare->stmts = [];
        $bare->attrGroups = [];
        $bare->setAttribute('comments', []);
        return preg_replace('/\s*\{\s*\}\s*$/', '', $this->printer->prettyPrint([$bare]));
    }

    private function constants(Stmt\ClassConst $part): string
    {
        $text = $this->linked((new Doc($part->getDocComment()?->getText()))->text);
        return implode('', array_map(static fn ($const): string => "\n## {$const->name}\n\n$text\n", $part->consts));
    }

    private function property(Stmt\Property $part): string
    {
        $doc = new Doc($part->getDocComment()?->getText());
        $bare = clone $part;
        $bare->setAttribute('comments', []);
        $code = $this->printer->prettyPrint([$bare]);
        $text = $this->linked(trim($doc->text . "\n\n" . implode("\n", $doc->of('var'))));
        return "\n## \${$part->props[0]->name}\n\n```php\n$code\n```\n\n$text\n";
    }

    private function method(Stmt\ClassMethod $part): string
    {
        $doc = new Doc($part->getDocComment()?->getText());
        $bare = clone $part;
        $bare->stmts = null;
        $bare->attrGroups = [];
        $bare->setAttribute('comments', []);
        $code = str_replace(') : ', '): ', $this->printer->prettyPrint([$bare]));
        if (strlen($code) > 100) {
            $code = preg_replace_callback(
                '/\((.*)\)(?=[^()]*$)/s',
                static fn (array $match): string => "(\n    " . preg_replace('/, (?=[^,]*\$)/', ",\n    ", $match[1]) . ",\n)",
                $code,
            );
        }
        $page = "\n## {$part->name}()\n\n```php\n$code\n```\n\n{$this->linked($doc->text)}\n";
        $rows = [];
        foreach ($doc->of('param') as $text) {
            if (preg_match('/^(\S.*?)?\s*(\$\w+)\s*(.*)$/', $text, $match)) {
                $rows[] = "| `{$match[2]}` | " . str_replace('|', '\|', $this->linked($match[3])) . ' |';
            }
        }
        if ($rows) {
            $page .= "\n| Parameter | |\n|---|---|\n" . implode("\n", $rows) . "\n";
        }
        foreach (['return' => 'Returns', 'throws' => 'Throws'] as $tag => $word) {
            foreach ($doc->of($tag) as $text) {
                [$type, $rest] = [...preg_split('/\s+(?![^<]*>)/', $text, 2), ''];
                $page .= "\n**$word** {$this->named($type)} {$this->linked($rest)}\n";
            }
        }
        return $page;
    }

    /** Returns the text with method names, such as Hold::as(), turned into links. */
    private function linked(string $text): string
    {
        return preg_replace_callback(
            '/(?<![\w`\\\\])((?:[A-Z]\w*\\\\)*[A-Z]\w+)::(\w+)\(\)/',
            function (array $match): string {
                $heading = ($this->file($match[1]) ?? '') . '#' . strtolower($match[2]);
                return isset($this->methods[$heading]) ? "[$match[0]]($heading)" : $match[0];
            },
            // Escape `<`, because Markdown would otherwise treat text such as <name> as an HTML tag.
            str_replace('<', '&lt;', $text),
        );
    }

    private function named(string $type): string
    {
        $file = $this->file($type);
        return $file === null ? "`$type`" : "[`$type`]($file)";
    }

    private function file(string $name): ?string
    {
        foreach ([ltrim($name, '\\'), "{$this->namespace}\\$name", "Fermata\\$name"] as $full) {
            if (isset($this->files[$full])) {
                return $this->files[$full];
            }
        }
        return null;
    }
}

[, $stub, $folder] = $argv;
$parser = (new PhpParser\ParserFactory())->create(PhpParser\ParserFactory::PREFER_PHP7);
$printer = new Standard(['shortArraySyntax' => true]);
$namespaces = array_filter($parser->parse(file_get_contents($stub)), static fn ($it): bool => $it instanceof Stmt\Namespace_);
$files = $methods = [];
foreach ($namespaces as $namespace) {
    foreach ($namespace->stmts as $class) {
        if ($class instanceof Stmt\ClassLike) {
            $name = "{$namespace->name}\\{$class->name}";
            $files[$name] = strtolower(str_replace('\\', '-', $name)) . '.md';
            foreach ($class->getMethods() as $method) {
                $methods["$files[$name]#" . strtolower((string) $method->name)] = true;
            }
        }
    }
}
if (!is_dir($folder)) {
    mkdir($folder, recursive: true);
}
$index = "# PHP classes\n\nEvery class, interface and enum of the extension; what is in the namespace `Fermata` can be named in one line:\n"
    . "`use Fermata\\{Channel, Event, Hold, Request, Response, Server};`\n";
foreach ($namespaces as $namespace) {
    $index .= "\n## {$namespace->name}\n\n| | |\n|---|---|\n";
    foreach ($namespace->stmts as $class) {
        if (!$class instanceof Stmt\ClassLike) {
            continue;
        }
        $file = $files["{$namespace->name}\\{$class->name}"];
        $page = (new Page((string) $namespace->name, $files, $methods, $printer))->of($class);
        file_put_contents("$folder/$file", preg_replace('/\n{3,}/', "\n\n", $page));
        $first = preg_split('/(?<=\.)\s|\n\n/', (new Doc($class->getDocComment()?->getText()))->text, 2)[0];
        $index .= "| [`{$class->name}`]($file) | " . str_replace(['|', "\n", '<'], ['\|', ' ', '&lt;'], $first) . " |\n";
    }
}
file_put_contents("$folder/index.md", $index);
echo count($files), " classes\n";
