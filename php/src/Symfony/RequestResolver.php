<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Request;
use Symfony\Component\HttpFoundation\Request as SymfonyRequest;
use Symfony\Component\HttpKernel\Controller\{ArgumentValueResolverInterface, ValueResolverInterface};
use Symfony\Component\HttpKernel\ControllerMetadata\ArgumentMetadata;

// Symfony 6.2 added a simpler interface, and Symfony 7 removed the old one.
if (interface_exists(ValueResolverInterface::class)) {
    /** Injects Fermata\Request into controllers. */
    final class RequestResolver implements ValueResolverInterface
    {
        /** @return list<Request> */
        public function resolve(SymfonyRequest $request, ArgumentMetadata $argument): iterable
        {
            $native = $request->attributes->get('_fermata_request');
            return $argument->getType() === Request::class && $native instanceof Request ? [$native] : [];
        }
    }
} else {
    /** Injects Fermata\Request into controllers. */
    final class RequestResolver implements ArgumentValueResolverInterface
    {
        public function supports(SymfonyRequest $request, ArgumentMetadata $argument): bool
        {
            return $argument->getType() === Request::class && $request->attributes->get('_fermata_request') instanceof Request;
        }

        /** @return list<Request> */
        public function resolve(SymfonyRequest $request, ArgumentMetadata $argument): iterable
        {
            return [$request->attributes->get('_fermata_request')];
        }
    }
}
