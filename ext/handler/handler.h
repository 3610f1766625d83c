/* Calls of handlers, and handling of failed ones. */
#ifndef FERMATA_HANDLER_H
#define FERMATA_HANDLER_H

#include "handler/fiber.h"
#include "handler/objects.h"
#include "handler/parts.h"
#include "handler/server.h"

/* call.c */
/* Calls a handler and leaves its exception pending. Returns false if this process was forked by the handler and exits. */
bool fermata_call(const fermata_handler *handler, zval *arguments, uint32_t arguments_len, zval *result);
/* Resets PHP's state after a handler. May run PHP code. */
void fermata_clean_up(void);
/* Exits a process that a handler has forked, when it returns from the handler. */
ZEND_COLD void fermata_leave(void);

/* failure.c */
/* Sends a response whose body does not come from PHP code. */
void fermata_refuse(FmRequest request, uint32_t status, FmStr text);
void fermata_detail(FmDetail *detail);
ZEND_COLD void fermata_log_exception(uint32_t level);
ZEND_COLD void fermata_leave_by_fatal(void);
ZEND_COLD void fermata_fail_at_handler(const fermata_handler *handler, FmStr message);
ZEND_COLD void fermata_fail_with_exception(const fermata_handler *handler);
void fermata_let_go(void);
ZEND_COLD void fermata_after_fatal(void);
/* Returns true if PHP's messages also go to a file or to syslog. */
bool fermata_has_error_log(void);

#endif
