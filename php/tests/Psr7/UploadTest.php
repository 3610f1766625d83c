<?php

declare(strict_types=1);

namespace Fermata\Tests\Psr7;

use Http\Psr7Test\UploadedFileIntegrationTest;

/** Uploaded files of a form. Each test moves a new file. */
final class UploadTest extends UploadedFileIntegrationTest
{
    use InHandler;

    private int $taken = 0;

    protected static function asked(): array
    {
        $body = '';
        foreach (range(0, 3) as $number) {
            $body .= "--x\r\nContent-Disposition: form-data; name=\"f[]\"; filename=\"$number.txt\"\r\nContent-Type: text/plain\r\n\r\nfile $number\r\n";
        }
        return ['POST', '/', ['Content-Type' => 'multipart/form-data; boundary=x'], "$body--x--\r\n"];
    }

    public function createSubject()
    {
        return $this->given->getUploadedFiles()['f'][$this->taken++];
    }
}
