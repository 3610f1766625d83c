<?php

declare(strict_types=1);

namespace Fermata\FastCgi\Internal;

use Fermata\Request;

/**
 * Converts a request to CGI meta-variables (RFC 3875, section 4.1).
 *
 * @internal
 */
final class Variables
{
    /** Variables that PHP-FPM sets itself. */
    private const OWN = ['REQUEST_TIME' => 1, 'REQUEST_TIME_FLOAT' => 1, 'PHP_SELF' => 1, 'PHP_AUTH_USER' => 1, 'PHP_AUTH_PW' => 1,
        'PHP_AUTH_DIGEST' => 1, 'argv' => 1, 'argc' => 1, 'HTTP_CONTENT_LENGTH' => 1, 'HTTP_CONTENT_TYPE' => 1];

    /**
     * @param array{string, string} $script script name and path info
     * @param int|null $bytes length of the body; null: no body
     * @return array<string, string>
     */
    public static function of(Request $request, string $root, string $prefix, array $script, ?int $bytes): array
    {
        [$name, $info] = $script;
        $variables = [
            'GATEWAY_INTERFACE' => 'CGI/1.1',
            // PHP built with --enable-force-cgi-redirect rejects requests without this variable.
            'REDIRECT_STATUS' => '200',
            'DOCUMENT_ROOT' => $root,
            'DOCUMENT_URI' => rawurldecode($request->path()),
            'SCRIPT_NAME' => $prefix . $name,
            'SCRIPT_FILENAME' => $root . $name,
        ];
        foreach ($request->serverParams() as $variable => $value) {
            if (is_scalar($value) && !isset(self::OWN[$variable])) {
                $variables[$variable] = (string) $value;
            }
        }
        if ($info !== '') {
            $variables['PATH_INFO'] = $info;
        }
        foreach (['Authorization' => 'HTTP_AUTHORIZATION', 'Content-Type' => 'CONTENT_TYPE'] as $header => $variable) {
            if (($value = $request->header($header)) !== null) {
                $variables[$variable] = $value;
            }
        }
        unset($variables['CONTENT_LENGTH']);
        if ($bytes !== null) {
            $variables['CONTENT_LENGTH'] = (string) $bytes;
        }
        return $variables;
    }
}
