<?php

declare(strict_types=1);

namespace Chat;

/** A refusal the user is told about: an HTTP status, a code for the page, a sentence for the human. */
final class Problem extends \RuntimeException
{
    /** @param ?string $field the form field the sentence is about */
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

    /** The message is stored, but the live channel could not take it now; the page tries again with the same key. */
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
