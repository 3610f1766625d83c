/* The module entry, for PHP builds that link the extension statically. */
#ifndef PHP_FERMATA_H
#define PHP_FERMATA_H

#include "php.h"

#define PHP_FERMATA_VERSION "0.1.0"

extern zend_module_entry fermata_module_entry;
#define phpext_fermata_ptr &fermata_module_entry

#endif
