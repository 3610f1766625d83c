<?php

declare(strict_types=1);

namespace Chat;

/** An error response: an HTTP status, a code for the page, and a message for the user. */
final class Problem extends \RuntimeException
{
    /** @param ?string $field form field that the message refers to */
    public function __construct(
        public readonly int $status,
        public readonly string $reason,
        string $message,
        public readonly ?string $field = null,
        public readonly ?int $retryAfterSeconds = null,
    ) {
        parent::__construct($message);
    }

    public static function invalid(string $field, string $message): self
    {
        return new self(422, 'invalid', $message, $field);
    }

    public static function signedOut(): self
    {
        return new self(401, 'signed_out', 'You are signed out. Please sign in.');
    }

    public static function wrongPassword(): self
    {
        return new self(401, 'wrong_password', 'This name and password do not match.', 'password');
    }

    public static function nameTaken(): self
    {
        return new self(409, 'name_taken', 'This name is taken. Choose another, or sign in if it is yours.', 'name');
    }

    public static function tooManyAttempts(int $seconds): self
    {
        return new self(429, 'too_many_attempts', "Too many attempts. Please wait $seconds seconds.", null, $seconds);
    }

    public static function unknownRecipient(string $name): self
    {
        return new self(404, 'unknown_recipient', "There is nobody called $name here.", 'to');
    }

    public static function forged(string $message): self
    {
        return new self(403, 'forged', $message);
    }

    /** The message is stored but could not be published; the page retries with the same key. */
    public static function busy(): self
    {
        return new self(503, 'busy', 'The server is busy. Trying again shortly.', null, 1);
    }

    /** @return array{error: array{code: string, message: string, field?: string}} */
    public function toArray(): array
    {
        $error = ['code' => $this->reason, 'message' => $this->getMessage()];
        if ($this->field !== null) {
            $error['field'] = $this->field;
        }

        return ['error' => $error];
    }
}
