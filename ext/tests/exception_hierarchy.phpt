--TEST--
Exceptions: mistakes are Errors, conditions are RuntimeExceptions, all are FermataException
--EXTENSIONS--
fermata
--FILE--
<?php
foreach (['MisuseError', 'ConfigurationException', 'BackpressureException', 'BadRequestException', 'ConnectionException', 'TimeoutException', 'ProtocolException'] as $name) {
    $class = new ReflectionClass("Fermata\\Exception\\$name");
    echo $name, ' extends ', $class->getParentClass()->getName(), $class->isFinal() ? ', final' : '',
        $class->implementsInterface(Fermata\Exception\FermataException::class) ? '' : ' WITHOUT INTERFACE', "\n";
}
$error = new Fermata\Exception\BadRequestException('m', 3, new Exception('p'));
echo $error->getMessage(), $error->getCode(), $error->getPrevious()->getMessage(), "\n";
?>
--EXPECT--
MisuseError extends Error, final
ConfigurationException extends RuntimeException, final
BackpressureException extends RuntimeException, final
BadRequestException extends RuntimeException, final
ConnectionException extends RuntimeException, final
TimeoutException extends RuntimeException, final
ProtocolException extends RuntimeException, final
m3p
