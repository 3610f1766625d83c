/* Sends a handler's result: a Response or a Hold. */
#include "fibers/fibers.h"
#include "http/http.h"
#include "zend_exceptions.h"

/* Lowest status that marks the handler as failed. */
#define STATUS_FAILED_MIN 500

/* Sends a response. If the first piece of a stream throws, the exception stays pending, and no response has been sent. */
void fermata_respond(const fermata_handler *handler, const fermata_response *response)
{
	if (UNEXPECTED(response->source)) {
		response->source->kind->respond(handler, response);
		fermata_set_whole(false);
		return;
	}
	FmHeader some[FERMATA_HEADERS_STACK];
	FmResponse out;
	FmHeader *headers = fermata_response_fill(response, some, &out);
	out.body = fermata_str_or_empty(response->body);
	/* FM_GONE is no error: the client has disconnected. */
	fm_respond(fermata.worker, fermata_this_request()->event.request, &out);
	fermata_set_whole(true);
	if (UNEXPECTED(headers != some)) {
		efree(headers);
	}
}

static void hold(const fermata_handler *handler, const fermata_hold *hold)
{
	FmError error;
	error.len = 0;
	uint32_t code = fermata_hold_send(fermata.worker, fermata_this_request(), hold, &error);
	if (UNEXPECTED(fermata_is_in_process()) && code == FM_OK) {
		fermata_note_hold((zend_object *)&hold->std);
	}
	if (UNEXPECTED(code == FM_BACKPRESSURE)) {
		/* The handler made no mistake. The core has logged the limit that was reached. */
		fermata_refuse(fermata_this_request()->event.request, FERMATA_STATUS_UNAVAILABLE, FERMATA_LITERAL("The server is busy; try again.\n"));
	} else if (UNEXPECTED(code != FM_OK && code != FM_GONE)) {
		fermata_fail_at_handler(handler, (FmStr){error.message, error.len});
	}
}

static ZEND_COLD void fail_with_type(const fermata_handler *handler, const zval *result)
{
	char message[256];
	int len = snprintf(message, sizeof(message),
		"TypeError: the handler must return Fermata\\Response or Fermata\\Hold, %s returned", fermata_type_name(result));
	fermata_fail_at_handler(handler, (FmStr){message, MIN((size_t)len, sizeof(message) - 1)});
}

/* Sends the value that a handler returned. */
void fermata_answer(const fermata_handler *handler, zval *result)
{
	if (EXPECTED(Z_TYPE_P(result) == IS_OBJECT)) {
		zend_object *object = Z_OBJ_P(result);
		if (EXPECTED(object->ce == fermata_ce_response)) {
			const fermata_response *response = FERMATA_FROM(fermata_response, object);
			/* A framework may have caught an exception in the middle of an exchange with a database, and returned an error
			 * page. */
			fermata_this_fiber()->has_failed |= UNEXPECTED(response->status >= STATUS_FAILED_MIN);
			fermata_respond(handler, response);
			if (UNEXPECTED(EG(exception)) && !fermata_is_leaving()) {
				fermata_fail_with_exception(handler);
			}
			return;
		}
		if (EXPECTED(object->ce == fermata_ce_hold)) {
			hold(handler, FERMATA_FROM(fermata_hold, object));
			return;
		}
	}
	fail_with_type(handler, result);
}

static void take_fresh_request(void)
{
	fermata_request_keep(fermata_this_request());
	OBJ_RELEASE(&fermata_this_request()->std);
	fermata_set_request(fermata_request_new());
}

/* Cleans up after the response was sent. */
void fermata_request_done(void)
{
	if (UNEXPECTED(EG(exception))) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
	fermata_fiber_returned();
	if (EXPECTED(!fermata_held_by_others(&fermata_this_request()->std) && !fermata_this_request()->kept)) {
		fermata_request_forget(fermata_this_request());
	} else {
		take_fresh_request();
	}
	fermata_clean_up();
	fermata.handling = false;
	if (UNEXPECTED(fermata_this_fiber()->touched)) {
		fermata_fiber_clean_up();
	}
}
