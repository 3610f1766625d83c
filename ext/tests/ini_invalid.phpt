--TEST--
An INI value out of range throws ConfigurationException in the constructor
--EXTENSIONS--
fermata
--INI--
fermata.body_bytes_max=many
--FILE--
<?php
try {
    new Fermata\Server();
} catch (Fermata\Exception\ConfigurationException $error) {
    var_dump(str_contains($error->getMessage(), 'body_bytes_max'));
}
?>
--EXPECT--
bool(true)
