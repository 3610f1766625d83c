<?php

declare(strict_types=1);

namespace Fermata\Internal;

use Fermata\{Hold, Request, Response};
use Fermata\Symfony\NativeResponse;
use Symfony\Component\HttpFoundation\{BinaryFileResponse, Request as SymfonyRequest, Response as SymfonyResponse, StreamedResponse};
use Symfony\Component\VarDumper\Caster\ReflectionCaster;
use Symfony\Component\VarDumper\Cloner\VarCloner;
use Symfony\Component\VarDumper\Dumper\HtmlDumper;
use Symfony\Component\VarDumper\VarDumper;

/**
 * Converts responses of Symfony and Laravel to those of the server.
 *
 * @internal
 */
final class HttpFoundation
{
    private const PIECE_BYTES = 65_536;

    /**
     * Makes dump() and dd() of symfony/var-dumper write HTML to the page, unless VAR_DUMPER_FORMAT or a bundle selects another
     * format. By default they write to the terminal under PHP's CLI.
     */
    public static function dumpToPages(): void
    {
        if (!class_exists(VarDumper::class) || isset($_SERVER['VAR_DUMPER_FORMAT'])) {
            return;
        }
        $cloner = new VarCloner();
        $cloner->addCasters(ReflectionCaster::UNSET_CLOSURE_FILE_INFO);
        VarDumper::setHandler(static function (mixed $value, ?string $label = null) use ($cloner): void {
            $data = $cloner->cloneVar($value);
            if ($label !== null) {
                $data = $data->withContext(['label' => $label]);
            }
            // Use a new dumper for each dump, so that it writes its styles and script again: the previous dump may be on another page.
            (new HtmlDumper())->dump($data);
        });
    }

    /**
     * Faster Request::createFromGlobals() for GET and HEAD without a body. The original searches all of $_SERVER for headers,
     * including the process environment.
     *
     * @template T of SymfonyRequest
     * @param class-string<T> $class
     * @return T|null null if only createFromGlobals() can create the request
     */
    public static function withoutBody(string $class): ?SymfonyRequest
    {
        static $hasFactory = null, $others;
        $hasFactory ??= \Closure::bind(static fn(): bool => SymfonyRequest::$requestFactory !== null, null, SymfonyRequest::class);
        if (!in_array($_SERVER['REQUEST_METHOD'], ['GET', 'HEAD'], true) || $_POST !== [] || $_FILES !== [] || $hasFactory()
            || isset($_SERVER['CONTENT_TYPE']) || isset($_SERVER['HTTP_CONTENT_TYPE']) || isset($_SERVER['HTTP_AUTHORIZATION'])) {
            return null;
        }
        $others ??= array_fill_keys(preg_grep('/^HTTP_|CONTENT_|AUTH/', array_keys($_SERVER), PREG_GREP_INVERT), true);
        $request = new $class($_GET, [], [], $_COOKIE, [], array_diff_key($_SERVER, $others));
        $request->server->replace($_SERVER);
        return $request;
    }

    public static function answer(Request $request, SymfonyResponse $response): Response|Hold
    {
        $status = $response->getStatusCode();
        // The reason phrase has no public getter.
        static $reasonOf = null;
        $reasonOf ??= \Closure::bind(static fn(SymfonyResponse $response): string => $response->statusText, null, SymfonyResponse::class);
        $answer = match (true) {
            $response instanceof NativeResponse => self::native($response->answer, self::headers($response)),
            $response instanceof BinaryFileResponse => self::file($request, $response, $status, self::headers($response)),
            $response instanceof StreamedResponse => self::streamed($response, $status),
            default => self::whole($request, $response, $status),
        };
        return $response instanceof NativeResponse ? $answer : Headers::withReason($answer, $status, $reasonOf($response));
    }

    /** @return array<string, list<string>> */
    private static function headers(SymfonyResponse $response): array
    {
        // Add the cookies, each encoded once.
        $headers = Headers::of($response->headers->allPreserveCase());
        if (isset($headers['set-cookie'])) {
            $headers['Set-Cookie'] = $headers['set-cookie'];
            unset($headers['set-cookie']);
        }
        return Headers::withSent($headers);
    }

    private static function streamed(StreamedResponse $response, int $status): Response
    {
        $printed = FrontController::printed();
        return Response::output(static function () use ($response, $printed): void {
            // Applications call ob_flush() for PHP-FPM's output_buffering, so open a buffer. Size 1 flushes after every write.
            ob_start(null, 1);
            echo $printed;
            $response->sendContent();
        }, $status, self::headers($response));
    }

    private static function whole(Request $request, SymfonyResponse $response, int $status): Response
    {
        $content = (string) $response->getContent();
        $length = $content === '' && $request->method() === 'HEAD' ? (string) $response->headers->get('Content-Length') : '';
        return ctype_digit($length)
            ? Response::stream([], $status, self::headers($response), (int) $length)
            : Response::relayed($status, $content, $response->headers->allPreserveCase());
    }

    /** @param array<string, list<string>> $headers */
    private static function native(Hold|Response $answer, array $headers): Response|Hold
    {
        // The server sets these two headers itself.
        return Headers::onto($answer, $headers, ['date', 'content-type']);
    }

    /**
     * Sends a complete file with Response::file(), which also handles conditional and range requests. If Symfony chose another
     * status, headers or a part of the file, the response follows Symfony.
     *
     * @param array<string, list<string>> $headers
     */
    private static function file(Request $request, BinaryFileResponse $response, int $status, array $headers): Response
    {
        $path = $response->getFile()->getPathname();
        // The part of the file and its deletion have no public getters.
        [$offset, $length, $isRemoved] = (fn(): array => [$this->offset, $this->maxlen, $this->deleteFileAfterSend])->call($response);
        $own = array_intersect_key(array_change_key_case($headers), ['etag' => 1, 'content-encoding' => 1, 'content-range' => 1]);
        if ($status === 200 && !$isRemoved && $own === [] && in_array($request->method(), ['GET', 'HEAD'], true)) {
            return Headers::onto(Response::file($path), $headers, ['last-modified', 'accept-ranges', 'date']);
        }
        if (!$response->isSuccessful()) {
            return new Response($status, (string) $response->getContent(), $headers);
        }
        $size = (int) filesize($path);
        $length = $request->method() === 'HEAD' || $length < 0 ? $size - $offset : min($length, $size - $offset);
        return Response::stream(self::part($path, $offset, $length, $isRemoved), $status, $headers, max(0, $length));
    }

    /** @return \Generator<int, string> */
    private static function part(string $path, int $offset, int $length, bool $isRemoved): \Generator
    {
        $file = fopen($path, 'rb');
        try {
            fseek($file, $offset);
            while ($length > 0 && ($piece = fread($file, min($length, self::PIECE_BYTES))) !== false && $piece !== '') {
                $length -= strlen($piece);
                yield $piece;
            }
        } finally {
            fclose($file);
            if ($isRemoved) {
                unlink($path);
            }
        }
    }
}
