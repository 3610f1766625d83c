<?php

declare(strict_types=1);

namespace Fermata\Psr15\Internal;

use Psr\Http\Message\{StreamFactoryInterface, StreamInterface, UploadedFileInterface};

/**
 * Uploaded file whose moveTo() renames the temporary file.
 *
 * @internal
 */
final class UploadedFile implements UploadedFileInterface
{
    private ?StreamInterface $stream = null;
    private bool $moved = false;

    public function __construct(
        private readonly \Fermata\UploadedFile $file,
        private readonly StreamFactoryInterface $streams,
        private readonly int $error,
    ) {}

    public function getStream(): StreamInterface
    {
        $this->check();
        return $this->stream ??= $this->streams->createStreamFromFile($this->file->path, 'rb');
    }

    public function moveTo($targetPath): void
    {
        $this->check();
        if (!is_string($targetPath) || $targetPath === '') {
            throw new \InvalidArgumentException('the path to move the uploaded file to must be a string that is not empty');
        }
        $this->stream?->close();
        $this->stream = null;
        $this->file->moveTo($targetPath);
        $this->moved = true;
    }

    public function getSize(): ?int
    {
        return $this->file->size;
    }

    public function getError(): int
    {
        return $this->error;
    }

    public function getClientFilename(): ?string
    {
        return $this->file->name;
    }

    public function getClientMediaType(): ?string
    {
        return $this->file->type === '' ? null : $this->file->type;
    }

    private function check(): void
    {
        if ($this->error !== UPLOAD_ERR_OK) {
            throw new \RuntimeException('the file was not taken: it is larger than this server allows (UPLOAD_ERR_INI_SIZE)');
        }
        if ($this->moved) {
            throw new \RuntimeException('the uploaded file was moved already');
        }
    }
}
