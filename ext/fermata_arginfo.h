/* This is a generated file, edit the .stub.php file instead.
 * Stub hash: ec61661ae907432d67a963b00fdbe6783a97f7b8 */

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_Fermata_delay, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, seconds, IS_DOUBLE, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_Fermata_async, 0, 1, Fermata\\Future, 0)
	ZEND_ARG_TYPE_INFO(0, work, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_Fermata_await, 0, 1, IS_MIXED, 0)
	ZEND_ARG_OBJ_INFO(0, future, Fermata\\Future, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_Fermata_all, 0, 0, IS_ARRAY, 0)
	ZEND_ARG_VARIADIC_OBJ_TYPE_MASK(0, works, Fermata\\Future, MAY_BE_CALLABLE)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_Fermata_race, 0, 0, IS_MIXED, 0)
	ZEND_ARG_VARIADIC_OBJ_TYPE_MASK(0, works, Fermata\\Future, MAY_BE_CALLABLE)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_Fermata_timeout, 0, 2, IS_MIXED, 0)
	ZEND_ARG_TYPE_INFO(0, seconds, IS_DOUBLE, 0)
	ZEND_ARG_TYPE_INFO(0, work, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_Fermata_shield, 0, 1, IS_MIXED, 0)
	ZEND_ARG_TYPE_INFO(0, work, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Server___construct, 0, 0, 0)
	ZEND_ARG_TYPE_MASK(0, listen, MAY_BE_STRING|MAY_BE_ARRAY|MAY_BE_NULL, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, workers, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, control, IS_STRING, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, limits, Fermata\\Limits, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, history, Fermata\\History, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, log, Fermata\\Log, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, tls, Fermata\\Tls, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, trustedProxies, IS_ARRAY, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, accessLog, Fermata\\AccessLog, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, metrics, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, gripUrl, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, proxyHeaders, IS_ARRAY, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, cluster, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Server_get, 0, 2, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, handler, IS_CALLABLE, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, middleware, IS_ARRAY, 0, "[]")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bodyBytes, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, streamBody, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Server_post arginfo_class_Fermata_Server_get

#define arginfo_class_Fermata_Server_put arginfo_class_Fermata_Server_get

#define arginfo_class_Fermata_Server_patch arginfo_class_Fermata_Server_get

#define arginfo_class_Fermata_Server_delete arginfo_class_Fermata_Server_get

#define arginfo_class_Fermata_Server_options arginfo_class_Fermata_Server_get

#define arginfo_class_Fermata_Server_any arginfo_class_Fermata_Server_get

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Server_group, 0, 2, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, prefix, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, routes, IS_CALLABLE, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, middleware, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Server_use, 0, 0, IS_STATIC, 0)
	ZEND_ARG_VARIADIC_TYPE_INFO(0, middleware, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Server_notFound, 0, 1, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, handler, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Server_error arginfo_class_Fermata_Server_notFound

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Server_static, 0, 2, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, prefix, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, directory, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, cacheSeconds, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, immutable, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, index, IS_STRING, 0, "\'index.html\'")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, precompressed, _IS_BOOL, 0, "true")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, compress, _IS_BOOL, 0, "true")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, sources, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, fallback, IS_CALLABLE, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Server_fastcgi, 0, 3, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, prefix, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, socket, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, root, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, index, IS_STRING, 1, "\'index.php\'")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, files, _IS_BOOL, 0, "true")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, connections, IS_LONG, 0, "16")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, queue, IS_LONG, 0, "256")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeout, IS_DOUBLE, 0, "60.0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, keepAlive, IS_DOUBLE, 0, "0.0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bodyBytes, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, streamBody, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Server_websocket, 0, 1, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, handler, Fermata\\WebSocketHandler, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, message, IS_CALLABLE, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, open, IS_CALLABLE, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, close, IS_CALLABLE, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, upgrade, IS_CALLABLE, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, options, Fermata\\WebSocket\\Options, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, middleware, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Server_pusher, 0, 1, IS_STATIC, 0)
	ZEND_ARG_OBJ_INFO(0, pusher, Fermata\\Pusher, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, path, IS_STRING, 0, "\'\'")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, middleware, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Server_mercure, 0, 1, IS_STATIC, 0)
	ZEND_ARG_OBJ_INFO(0, mercure, Fermata\\Mercure, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Server_every, 0, 2, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, seconds, IS_DOUBLE, 0)
	ZEND_ARG_TYPE_INFO(0, work, IS_CALLABLE, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, inEachWorker, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Server_defer, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, work, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Server_jobs, 0, 0, Fermata\\Jobs, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, processes, IS_LONG, 0, "1")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, queue, IS_LONG, 0, "1000")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeoutMs, IS_LONG, 0, "30000")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, messageBytes, IS_LONG, 0, "8388608")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Server_onMessage arginfo_class_Fermata_Server_notFound

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Server_routes, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Server_run, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Pusher___construct, 0, 0, 3)
	ZEND_ARG_TYPE_INFO(0, appId, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, secret, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, sharedPrefix, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, authorize, IS_CALLABLE, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, authorizePath, IS_STRING, 0, "\'/broadcasting/auth\'")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, signIn, IS_CALLABLE, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, signInPath, IS_STRING, 0, "\'/broadcasting/user-auth\'")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, allowedOrigins, IS_ARRAY, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, clientEvents, _IS_BOOL, 0, "true")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, subscriptionCounts, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, webhooks, IS_ARRAY, 0, "[]")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, connectionsMax, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, messageBytesMax, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, eventNameCharsMax, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, eventDataBytesMax, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, channelsPerEventMax, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, batchEventsMax, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, clientEventsPerSecond, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, channelsPerConnectionMax, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, presenceMembersMax, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, userIdBytesMax, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, userInfoBytesMax, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, watchlistUsersMax, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, clockWindowSeconds, IS_LONG, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Pusher_answerAuthorization, 0, 1, Fermata\\Response, 0)
	ZEND_ARG_OBJ_INFO(0, request, Fermata\\Request, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Pusher_answerSignIn arginfo_class_Fermata_Pusher_answerAuthorization

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Mercure___construct, 0, 0, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, publisherKey, IS_STRING, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, publisherAlgorithm, Fermata\\Mercure\\Algorithm, 0, "Fermata\\Mercure\\Algorithm::HS256")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, publisherJwksFile, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, subscriberKey, IS_STRING, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, subscriberAlgorithm, Fermata\\Mercure\\Algorithm, 0, "Fermata\\Mercure\\Algorithm::HS256")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, subscriberJwksFile, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, anonymous, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, subscriptions, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, cookieName, IS_STRING, 0, "\'mercureAuthorization\'")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, corsOrigins, IS_ARRAY, 0, "[]")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, publishOrigins, IS_ARRAY, 0, "[]")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, heartbeatSeconds, IS_LONG, 0, "40")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, streamSeconds, IS_LONG, 0, "0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, position, _IS_BOOL, 0, "true")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, templatesMax, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, subscribersMax, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, sharedPrefix, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, version, IS_STRING, 0, "\'0.x\'")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, resourceIdentifier, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, issuer, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, publisherJwksUrl, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, subscriberJwksUrl, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, jwksRefreshSeconds, IS_LONG, 0, "3600")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Jobs___construct, 0, 0, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Jobs_add, 0, 2, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, job, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Jobs_run, 0, 1, IS_MIXED, 0)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
	ZEND_ARG_VARIADIC_TYPE_INFO(0, arguments, IS_MIXED, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Worker___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Worker_index, 0, 0, IS_LONG, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Worker_send, 0, 2, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, worker, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, message, IS_MIXED, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Worker_broadcast, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, message, IS_MIXED, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, self, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Worker_receive arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_Poll___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Poll_inHandler, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Poll_watch, 0, 3, IS_VOID, 0)
	ZEND_ARG_INFO(0, stream)
	ZEND_ARG_TYPE_INFO(0, read, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, write, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Poll_signal, 0, 2, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, signal, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, watch, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Poll_wait, 0, 0, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, seconds, IS_DOUBLE, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, background, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Poll_wake arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_Routes___construct arginfo_class_Fermata_Jobs___construct

#define arginfo_class_Fermata_Routes_get arginfo_class_Fermata_Server_get

#define arginfo_class_Fermata_Routes_post arginfo_class_Fermata_Server_get

#define arginfo_class_Fermata_Routes_put arginfo_class_Fermata_Server_get

#define arginfo_class_Fermata_Routes_patch arginfo_class_Fermata_Server_get

#define arginfo_class_Fermata_Routes_delete arginfo_class_Fermata_Server_get

#define arginfo_class_Fermata_Routes_options arginfo_class_Fermata_Server_get

#define arginfo_class_Fermata_Routes_any arginfo_class_Fermata_Server_get

#define arginfo_class_Fermata_Routes_group arginfo_class_Fermata_Server_group

#define arginfo_class_Fermata_Routes_use arginfo_class_Fermata_Server_use

#define arginfo_class_Fermata_Routes_websocket arginfo_class_Fermata_Server_websocket

#define arginfo_class_Fermata_Routes_static arginfo_class_Fermata_Server_static

#define arginfo_class_Fermata_Next___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_TYPE_MASK_EX(arginfo_class_Fermata_Next___invoke, 0, 1, Fermata\\Response|Fermata\\Hold, 0)
	ZEND_ARG_OBJ_INFO(0, request, Fermata\\Request, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Limits___construct, 0, 0, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, connections, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, connectionsPerAddress, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, headerBytes, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bodyBytes, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, queueBytes, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, eventBytes, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, headerTimeoutMs, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bodyTimeoutMs, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, idleTimeoutMs, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, writeTimeoutMs, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, drainTimeoutMs, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, handlers, IS_LONG, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_History___construct, 0, 0, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, count, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, ageMs, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bytes, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, path, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Log___construct, 0, 0, 0)
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, format, Fermata\\LogFormat, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, level, Fermata\\LogLevel, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_AccessLog___construct, 0, 0, 1)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, format, Fermata\\AccessLogFormat, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, query, _IS_BOOL, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Tls___construct, 0, 0, 2)
	ZEND_ARG_TYPE_MASK(0, certificate, MAY_BE_STRING|MAY_BE_ARRAY, NULL)
	ZEND_ARG_TYPE_MASK(0, key, MAY_BE_STRING|MAY_BE_ARRAY, NULL)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, clientCa, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, clientRequired, _IS_BOOL, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, minVersion, Fermata\\TlsVersion, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Tls_development, 0, 0, Fermata\\Tls, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_ClientCertificate___construct arginfo_class_Fermata_Jobs___construct

#define arginfo_class_Fermata_Trace___construct arginfo_class_Fermata_Jobs___construct

#define arginfo_class_Fermata_Request___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Request_method, 0, 0, IS_STRING, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Request_path arginfo_class_Fermata_Request_method

#define arginfo_class_Fermata_Request_target arginfo_class_Fermata_Request_method

#define arginfo_class_Fermata_Request_queryString arginfo_class_Fermata_Request_method

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Request_query, 0, 1, IS_STRING, 1)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, default, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Request_queries arginfo_class_Fermata_Server_routes

#define arginfo_class_Fermata_Request_header arginfo_class_Fermata_Request_query

#define arginfo_class_Fermata_Request_headers arginfo_class_Fermata_Server_routes

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Request_route, 0, 1, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Request_hasBody arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_Request_body arginfo_class_Fermata_Request_method

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Request_read, 0, 0, IS_STRING, 1)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bytes, IS_LONG, 0, "65536")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Request_bodyStream arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Request_json, 0, 0, IS_MIXED, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Request_form arginfo_class_Fermata_Request_query

#define arginfo_class_Fermata_Request_forms arginfo_class_Fermata_Server_routes

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Request_file, 0, 1, Fermata\\\125ploadedFile, 1)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Request_files arginfo_class_Fermata_Server_routes

#define arginfo_class_Fermata_Request_cookie arginfo_class_Fermata_Request_query

#define arginfo_class_Fermata_Request_cookies arginfo_class_Fermata_Server_routes

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Request_withAttribute, 0, 2, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, value, IS_MIXED, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Request_attribute, 0, 1, IS_MIXED, 0)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, default, IS_MIXED, 0, "null")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Request_attributes arginfo_class_Fermata_Server_routes

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Request_lastEventId, 0, 0, IS_STRING, 1)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Request_remoteAddress arginfo_class_Fermata_Request_method

#define arginfo_class_Fermata_Request_remotePort arginfo_class_Fermata_Worker_index

#define arginfo_class_Fermata_Request_host arginfo_class_Fermata_Request_method

#define arginfo_class_Fermata_Request_scheme arginfo_class_Fermata_Request_method

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Request_serverParams, 0, 0, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, others, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Request_fillGlobals, 0, 0, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, server, IS_ARRAY, 0, "[]")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, uploadBytes, IS_LONG, 1, "null")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Request_takeOutput arginfo_class_Fermata_Request_method

#define arginfo_class_Fermata_Request_deferAnswer arginfo_class_Fermata_Server_run

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Request_earlyHints, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, headers, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Request_clientCertificate, 0, 0, Fermata\\ClientCertificate, 1)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Request_trace, 0, 0, Fermata\\Trace, 1)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_UploadedFile___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_UploadedFile_moveTo, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_UploadedFile_contents arginfo_class_Fermata_Request_method

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Response___construct, 0, 0, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, body, IS_STRING, 0, "\'\'")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, headers, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Response_json, 0, 1, Fermata\\Response, 0)
	ZEND_ARG_TYPE_INFO(0, data, IS_MIXED, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Response_text, 0, 1, Fermata\\Response, 0)
	ZEND_ARG_TYPE_INFO(0, text, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Response_html, 0, 1, Fermata\\Response, 0)
	ZEND_ARG_TYPE_INFO(0, html, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Response_redirect, 0, 1, Fermata\\Response, 0)
	ZEND_ARG_TYPE_INFO(0, location, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "302")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Response_stream, 0, 1, Fermata\\Response, 0)
	ZEND_ARG_OBJ_TYPE_MASK(0, body, Traversable, MAY_BE_ARRAY|MAY_BE_CALLABLE, NULL)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, headers, IS_ARRAY, 0, "[]")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, length, IS_LONG, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Response_events, 0, 1, Fermata\\Response, 0)
	ZEND_ARG_TYPE_INFO(0, events, IS_CALLABLE, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, headers, IS_ARRAY, 0, "[]")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, keepAlive, IS_DOUBLE, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Response_output, 0, 1, Fermata\\Response, 0)
	ZEND_ARG_TYPE_INFO(0, output, IS_CALLABLE, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, headers, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Response_file, 0, 1, Fermata\\Response, 0)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, root, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, download, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, contentType, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Response_accepted, 0, 0, Fermata\\Response, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Response_noContent arginfo_class_Fermata_Response_accepted

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Response_relayed, 0, 3, Fermata\\Response, 0)
	ZEND_ARG_TYPE_INFO(0, status, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, body, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, headers, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Response_withStatus, 0, 1, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, status, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, reason, IS_STRING, 0, "\'\'")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Response_withHeader, 0, 2, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Response_withAddedHeader arginfo_class_Fermata_Response_withHeader

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Response_withCookie, 0, 2, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, maxAge, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, path, IS_STRING, 0, "\'/\'")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, domain, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, secure, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, httpOnly, _IS_BOOL, 0, "true")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, sameSite, Fermata\\SameSite, 0, "Fermata\\SameSite::Lax")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, partitioned, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Response_status arginfo_class_Fermata_Worker_index

#define arginfo_class_Fermata_Response_body arginfo_class_Fermata_Request_method

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Response_header, 0, 1, IS_STRING, 1)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Response_headers arginfo_class_Fermata_Server_routes

#define arginfo_class_Fermata_EventSink___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_EventSink_send, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, data, IS_STRING, 1)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, event, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, id, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, retry, IS_LONG, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_EventSink_comment, 0, 0, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, text, IS_STRING, 0, "\'\'")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_EventSink_flush arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_EventSink_close arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_EventSink_isOpen arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_EventSink_isStopping arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_Hold___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Hold_sse, 0, 1, Fermata\\Hold, 0)
	ZEND_ARG_TYPE_INFO(0, channel, IS_STRING, 0)
	ZEND_ARG_VARIADIC_TYPE_INFO(0, channels, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Hold_as, 0, 1, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, user, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, info, IS_ARRAY, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, announce, _IS_BOOL, 0, "true")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Hold_since, 0, 1, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, eventId, IS_STRING, 1)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Hold_fromStart, 0, 0, IS_STATIC, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Hold_fromNow arginfo_class_Fermata_Hold_fromStart

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Hold_keepAlive, 0, 1, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, seconds, IS_LONG, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Hold_with, 0, 0, IS_STATIC, 0)
	ZEND_ARG_VARIADIC_OBJ_INFO(0, events, Fermata\\Event, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Hold_slow, 0, 1, IS_STATIC, 0)
	ZEND_ARG_OBJ_INFO(0, policy, Fermata\\SlowPolicy, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Hold_withHeader arginfo_class_Fermata_Response_withHeader

#define arginfo_class_Fermata_Hold_withAddedHeader arginfo_class_Fermata_Response_withHeader

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Event___construct, 0, 0, 1)
	ZEND_ARG_TYPE_INFO(0, data, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, name, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Event_json, 0, 1, Fermata\\Event, 0)
	ZEND_ARG_TYPE_INFO(0, data, IS_MIXED, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, name, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Channel___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Channel_get, 0, 1, Fermata\\Channel, 0)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Channel_publish, 0, 1, IS_STRING, 0)
	ZEND_ARG_OBJ_TYPE_MASK(0, event, Fermata\\Event|Fermata\\WebSocket\\Message, MAY_BE_STRING, NULL)
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, except, Fermata\\WebSocket, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, ack, Fermata\\Ack, 0, "Fermata\\Ack::Cluster")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Channel_publishExcept, 0, 2, IS_STRING, 0)
	ZEND_ARG_OBJ_INFO(0, event, Fermata\\Event, 0)
	ZEND_ARG_TYPE_INFO(0, socketId, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Channel_members, 0, 0, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, limit, IS_LONG, 1, "null")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Channel_memberCount arginfo_class_Fermata_Worker_index

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Channel_history, 0, 0, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, since, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, count, IS_LONG, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Channel_read, 0, 0, Fermata\\ChannelReader, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, since, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, fromStart, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, gapEvents, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_ChannelReader___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_ChannelReader_receive, 0, 0, Fermata\\Event, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_ChannelReader_getIterator, 0, 0, Iterator, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Member___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Publisher___construct, 0, 0, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, control, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeoutMs, IS_LONG, 0, "2000")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Publisher_publish, 0, 2, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, channel, IS_STRING, 0)
	ZEND_ARG_OBJ_INFO(0, event, Fermata\\Event, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocketHandler_upgrade, 0, 1, IS_VOID, 0)
	ZEND_ARG_OBJ_INFO(0, upgrade, Fermata\\WebSocket\\\125pgrade, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocketHandler_open, 0, 1, IS_VOID, 0)
	ZEND_ARG_OBJ_INFO(0, socket, Fermata\\WebSocket, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocketHandler_message, 0, 2, IS_VOID, 0)
	ZEND_ARG_OBJ_INFO(0, socket, Fermata\\WebSocket, 0)
	ZEND_ARG_OBJ_INFO(0, message, Fermata\\WebSocket\\Message, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocketHandler_close, 0, 3, IS_VOID, 0)
	ZEND_ARG_OBJ_INFO(0, socket, Fermata\\WebSocket, 0)
	ZEND_ARG_TYPE_INFO(0, code, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, reason, IS_STRING, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_WebSocket___construct arginfo_class_Fermata_Jobs___construct

#define arginfo_class_Fermata_WebSocket_id arginfo_class_Fermata_Request_method

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_send, 0, 1, IS_VOID, 0)
	ZEND_ARG_OBJ_TYPE_MASK(0, data, Stringable|Fermata\\WebSocket\\Message, MAY_BE_STRING, NULL)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_sendBinary, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, data, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_trySend, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_OBJ_TYPE_MASK(0, data, Stringable|Fermata\\WebSocket\\Message, MAY_BE_STRING, NULL)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, binary, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_sendTo, 0, 2, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, id, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, data, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, binary, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_close, 0, 0, IS_VOID, 0)
	ZEND_ARG_OBJ_TYPE_MASK(0, code, Fermata\\WebSocket\\CloseCode, MAY_BE_LONG, "Fermata\\WebSocket\\CloseCode::Normal")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, reason, IS_STRING, 0, "\'\'")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_join, 0, 1, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, channel, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, user, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, info, IS_ARRAY, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, announce, _IS_BOOL, 0, "true")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, since, IS_STRING, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, format, Fermata\\WebSocket\\Format, 0, "Fermata\\WebSocket\\Format::Data")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, fromStart, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_leave, 0, 1, IS_STATIC, 0)
	ZEND_ARG_TYPE_INFO(0, channel, IS_STRING, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_WebSocket_data arginfo_class_Fermata_Request_json

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_setData, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, data, IS_MIXED, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_WebSocket_isOpen arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_WebSocket_queuedBytes arginfo_class_Fermata_Worker_index

#define arginfo_class_Fermata_WebSocket_protocol arginfo_class_Fermata_Request_lastEventId

#define arginfo_class_Fermata_WebSocket_remoteAddress arginfo_class_Fermata_Request_method

#define arginfo_class_Fermata_WebSocket_remotePort arginfo_class_Fermata_Worker_index

#define arginfo_class_Fermata_Future___construct arginfo_class_Fermata_Jobs___construct

#define arginfo_class_Fermata_Future_await arginfo_class_Fermata_Request_json

#define arginfo_class_Fermata_Future_isDone arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_Future_cancel arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_Cancellation_cancel arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_Cancellation_isCancelled arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_Cancellation_run arginfo_Fermata_shield

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Runtime_hook, 0, 0, IS_VOID, 0)
	ZEND_ARG_VARIADIC_OBJ_INFO(0, hooks, Fermata\\Hook, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Runtime_hooks arginfo_class_Fermata_Server_routes

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Runtime_setSapiName, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Runtime_replaceWorker arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_Runtime_isToRestart arginfo_class_Fermata_Poll_inHandler

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Runtime_keepOnCancel, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, connection, IS_MIXED, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Table___construct, 0, 0, 2)
	ZEND_ARG_TYPE_INFO(0, rows, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, columns, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, keyBytes, IS_LONG, 0, "64")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Table_set, 0, 2, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, row, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Table_get, 0, 1, IS_ARRAY, 1)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_class_Fermata_Table_value, 0, 2, MAY_BE_LONG|MAY_BE_DOUBLE|MAY_BE_STRING|MAY_BE_NULL)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, column, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Table_exists, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_class_Fermata_Table_increment, 0, 2, MAY_BE_LONG|MAY_BE_DOUBLE)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, column, IS_STRING, 0)
	ZEND_ARG_TYPE_MASK(0, by, MAY_BE_LONG|MAY_BE_DOUBLE, "1")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Table_decrement arginfo_class_Fermata_Table_increment

#define arginfo_class_Fermata_Table_delete arginfo_class_Fermata_Table_exists

#define arginfo_class_Fermata_Table_clear arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_Table_count arginfo_class_Fermata_Worker_index

#define arginfo_class_Fermata_Table_getIterator arginfo_class_Fermata_ChannelReader_getIterator

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Pool___construct, 0, 0, 2)
	ZEND_ARG_OBJ_INFO(0, connect, Closure, 0)
	ZEND_ARG_TYPE_INFO(0, size, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, waitSeconds, IS_DOUBLE, 0, "5.0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, checkAfterSeconds, IS_DOUBLE, 0, "30.0")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, check, Closure, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, reset, Closure, 1, "null")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Pool_use arginfo_Fermata_shield

#define arginfo_class_Fermata_Pool_close arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_Pool_idle arginfo_class_Fermata_Worker_index

#define arginfo_class_Fermata_Pool_borrowed arginfo_class_Fermata_Worker_index

#define arginfo_class_Fermata_Pool_waiting arginfo_class_Fermata_Worker_index

#define arginfo_class_Fermata_Context_get arginfo_class_Fermata_Request_attribute

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Context_set, 0, 2, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, value, IS_MIXED, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_File___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_File_read, 0, 1, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, offset, IS_LONG, 0, "0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, length, IS_LONG, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_File_write, 0, 2, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, data, IS_STRING, 0)
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, mode, Fermata\\File\\WriteMode, 0, "Fermata\\File\\WriteMode::Replace")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, sync, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, permissions, IS_LONG, 0, "0666")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_File_copy, 0, 2, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, from, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, to, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, overwrite, _IS_BOOL, 0, "true")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_File_stat, 0, 1, Fermata\\File\\Stat, 0)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, followLinks, _IS_BOOL, 0, "true")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_File_exists, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_File_list, 0, 1, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_File_remove, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, recursive, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_File_rename, 0, 2, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, from, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, to, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, overwrite, _IS_BOOL, 0, "true")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_File_makeDirectory, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, recursive, _IS_BOOL, 0, "true")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, permissions, IS_LONG, 0, "0777")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_File_lines, 0, 1, Fermata\\File\\Pieces, 0)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bytesMax, IS_LONG, 0, "1048576")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_File_blocks, 0, 1, Fermata\\File\\Pieces, 0)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bytes, IS_LONG, 0, "65536")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_File_open, 0, 1, Fermata\\File, 0)
	ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, mode, Fermata\\File\\OpenMode, 0, "Fermata\\File\\OpenMode::Read")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, permissions, IS_LONG, 0, "0666")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_File_temporary, 0, 0, Fermata\\File, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, directory, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, prefix, IS_STRING, 0, "\'fermata-\'")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_File_readBlock arginfo_class_Fermata_Request_read

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_File_readLine, 0, 0, IS_STRING, 1)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bytesMax, IS_LONG, 0, "1048576")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_File_writeBlock, 0, 1, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, data, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_File_seek, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, position, IS_LONG, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_File_position arginfo_class_Fermata_Worker_index

#define arginfo_class_Fermata_File_size arginfo_class_Fermata_Worker_index

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_File_truncate, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, size, IS_LONG, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_File_sync arginfo_class_Fermata_Server_run

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_File_lock, 0, 0, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, exclusive, _IS_BOOL, 0, "true")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_File_tryLock, 0, 0, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, exclusive, _IS_BOOL, 0, "true")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_File_unlock arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_File_keep arginfo_class_Fermata_UploadedFile_moveTo

#define arginfo_class_Fermata_File_close arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_File_Stat___construct arginfo_class_Fermata_Jobs___construct

#define arginfo_class_Fermata_File_Stat_isFile arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_File_Stat_isDirectory arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_File_Pieces___construct arginfo_class_Fermata_Jobs___construct

#define arginfo_class_Fermata_File_Pieces_current arginfo_class_Fermata_Request_method

#define arginfo_class_Fermata_File_Pieces_key arginfo_class_Fermata_Worker_index

#define arginfo_class_Fermata_File_Pieces_next arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_File_Pieces_rewind arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_File_Pieces_valid arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_Sync_Mutex_lock arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_Sync_Mutex_tryLock arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_Sync_Mutex_unlock arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_Sync_Mutex_isLocked arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_Sync_Mutex_synchronized arginfo_Fermata_shield

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Sync_Semaphore___construct, 0, 0, 1)
	ZEND_ARG_TYPE_INFO(0, permits, IS_LONG, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Sync_Semaphore_acquire arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_Sync_Semaphore_tryAcquire arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_Sync_Semaphore_release arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_Sync_Semaphore_run arginfo_Fermata_shield

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Sync_Queue___construct, 0, 0, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, capacity, IS_LONG, 0, "1")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Sync_Queue_push, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, item, IS_MIXED, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Sync_Queue_tryPush, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, item, IS_MIXED, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Sync_Queue_pop arginfo_class_Fermata_Request_json

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Sync_Queue_tryPop, 0, 0, IS_MIXED, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, default, IS_MIXED, 0, "null")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Sync_Queue_close arginfo_class_Fermata_Server_run

#define arginfo_class_Fermata_Sync_Queue_isClosed arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_Sync_Queue_count arginfo_class_Fermata_Worker_index

#define arginfo_class_Fermata_Sync_Queue_getIterator arginfo_class_Fermata_ChannelReader_getIterator

#define arginfo_class_Fermata_Table_Column___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Table_Column_int, 0, 1, Fermata\\Table\\Column, 0)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Table_Column_float arginfo_class_Fermata_Table_Column_int

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Table_Column_string, 0, 2, Fermata\\Table\\Column, 0)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, bytes, IS_LONG, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_WebSocket_Upgrade___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_WebSocket_Upgrade_request, 0, 0, Fermata\\Request, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_WebSocket_Upgrade_protocols arginfo_class_Fermata_Server_routes

#define arginfo_class_Fermata_WebSocket_Upgrade_origin arginfo_class_Fermata_Request_lastEventId

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_Upgrade_accept, 0, 0, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, protocol, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, headers, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_Upgrade_refuse, 0, 0, IS_VOID, 0)
	ZEND_ARG_OBJ_TYPE_MASK(0, response, Fermata\\Response, MAY_BE_LONG, "403")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_WebSocket_Upgrade_setData arginfo_class_Fermata_WebSocket_setData

#define arginfo_class_Fermata_WebSocket_Message___construct arginfo_class_Fermata_Jobs___construct

#define arginfo_class_Fermata_WebSocket_Message_data arginfo_class_Fermata_Request_method

#define arginfo_class_Fermata_WebSocket_Message_isBinary arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_WebSocket_Message_json arginfo_class_Fermata_Request_json

#define arginfo_class_Fermata_WebSocket_Message___toString arginfo_class_Fermata_Request_method

#define arginfo_class_Fermata_WebSocket_Message_jsonSerialize arginfo_class_Fermata_Request_method

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_WebSocket_Options___construct, 0, 0, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, origins, IS_ARRAY, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, protocols, IS_ARRAY, 0, "[]")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, messageBytes, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, frameBytes, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, queueBytes, IS_LONG, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, queuePolicy, Fermata\\WebSocket\\QueuePolicy, 0, "Fermata\\WebSocket\\QueuePolicy::Close")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, pingIntervalMs, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, pongTimeoutMs, IS_LONG, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, idleTimeoutMs, IS_LONG, 1, "null")
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, compression, Fermata\\WebSocket\\Compression, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_WebSocket_Compression___construct, 0, 0, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, serverContextTakeover, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, clientContextTakeover, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, windowBits, IS_LONG, 0, "15")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, level, IS_LONG, 0, "1")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, minBytes, IS_LONG, 0, "64")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_WebSocket_Codec___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_Codec_acceptKey, 0, 1, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_Codec_encode, 0, 1, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, payload, IS_STRING, 0)
	ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, opcode, Fermata\\WebSocket\\Opcode, 0, "Fermata\\WebSocket\\Opcode::Text")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, masked, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, fin, _IS_BOOL, 0, "true")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, rsv1, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, rsv2, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, rsv3, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_Codec_encodeClose, 0, 0, IS_STRING, 0)
	ZEND_ARG_OBJ_TYPE_MASK(0, code, Fermata\\WebSocket\\CloseCode, MAY_BE_LONG, "Fermata\\WebSocket\\CloseCode::Normal")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, reason, IS_STRING, 0, "\'\'")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, masked, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_WebSocket_Codec_decode, 0, 1, Fermata\\WebSocket\\Frame, 1)
	ZEND_ARG_TYPE_INFO(0, bytes, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, offset, IS_LONG, 0, "0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, masked, _IS_BOOL, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, rsv1, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, rsv2, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, rsv3, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, payloadBytesMax, IS_LONG, 0, "16777216")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_WebSocket_Client___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_WebSocket_Client_connect, 0, 1, Fermata\\WebSocket\\Client, 0)
	ZEND_ARG_TYPE_INFO(0, url, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, subprotocols, IS_ARRAY, 0, "[]")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, headers, IS_ARRAY, 0, "[]")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeout, IS_DOUBLE, 0, "10.0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, compression, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, messageBytes, IS_LONG, 0, "16777216")
	ZEND_ARG_INFO_WITH_DEFAULT_VALUE(0, context, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_Client_send, 0, 1, IS_VOID, 0)
	ZEND_ARG_OBJ_TYPE_MASK(0, data, Fermata\\WebSocket\\Message, MAY_BE_STRING, NULL)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_WebSocket_Client_sendBinary arginfo_class_Fermata_WebSocket_sendBinary

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_WebSocket_Client_receive, 0, 0, Fermata\\WebSocket\\Message, 1)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeout, IS_DOUBLE, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_Client_ping, 0, 0, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, payload, IS_STRING, 0, "\'\'")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_Client_close, 0, 0, IS_VOID, 0)
	ZEND_ARG_OBJ_TYPE_MASK(0, code, Fermata\\WebSocket\\CloseCode, MAY_BE_LONG, "Fermata\\WebSocket\\CloseCode::Normal")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, reason, IS_STRING, 0, "\'\'")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeout, IS_DOUBLE, 0, "5.0")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_WebSocket_Client_isOpen arginfo_class_Fermata_Poll_inHandler

#define arginfo_class_Fermata_WebSocket_Client_protocol arginfo_class_Fermata_Request_lastEventId

#define arginfo_class_Fermata_WebSocket_Client_lastPong arginfo_class_Fermata_Request_lastEventId

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_WebSocket_Client_closeCode, 0, 0, IS_LONG, 1)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_WebSocket_Client_closeReason arginfo_class_Fermata_Request_lastEventId

#define arginfo_class_Fermata_WebSocket_Frame___construct arginfo_class_Fermata_Jobs___construct

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Testing_Engine___construct, 0, 0, 1)
	ZEND_ARG_OBJ_INFO(0, server, Fermata\\Server, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, waitSeconds, IS_DOUBLE, 0, "10.0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Testing_Engine_connect, 0, 1, IS_VOID, 0)
	ZEND_ARG_INFO(0, stream)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, address, IS_STRING, 0, "\'127.0.0.1\'")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, port, IS_LONG, 0, "50000")
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Testing_Engine_run arginfo_class_Fermata_Server_run

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Testing_Engine_advance, 0, 1, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, ms, IS_LONG, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Testing_Engine_takeException, 0, 0, Throwable, 1)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Fermata_Testing_Engine_takeHold, 0, 0, IS_ARRAY, 1)
ZEND_END_ARG_INFO()

#define arginfo_class_Fermata_Testing_Engine_log arginfo_class_Fermata_Request_method

#define arginfo_class_Fermata_Testing_Engine_stop arginfo_class_Fermata_Server_run

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Fermata_Pusher_Webhook___construct, 0, 0, 1)
	ZEND_ARG_TYPE_INFO(0, url, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, events, IS_ARRAY, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeoutMs, IS_LONG, 0, "5000")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, retrySeconds, IS_LONG, 0, "300")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, queueEventsMax, IS_LONG, 0, "10000")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Fermata_Exception_ProtocolException_closeCode, 0, 0, Fermata\\WebSocket\\CloseCode, 0)
ZEND_END_ARG_INFO()


ZEND_FUNCTION(Fermata_delay);
ZEND_FUNCTION(Fermata_async);
ZEND_FUNCTION(Fermata_await);
ZEND_FUNCTION(Fermata_all);
ZEND_FUNCTION(Fermata_race);
ZEND_FUNCTION(Fermata_timeout);
ZEND_FUNCTION(Fermata_shield);
ZEND_METHOD(Fermata_Server, __construct);
ZEND_METHOD(Fermata_Server, get);
ZEND_METHOD(Fermata_Server, post);
ZEND_METHOD(Fermata_Server, put);
ZEND_METHOD(Fermata_Server, patch);
ZEND_METHOD(Fermata_Server, delete);
ZEND_METHOD(Fermata_Server, options);
ZEND_METHOD(Fermata_Server, any);
ZEND_METHOD(Fermata_Server, group);
ZEND_METHOD(Fermata_Server, use);
ZEND_METHOD(Fermata_Server, notFound);
ZEND_METHOD(Fermata_Server, error);
ZEND_METHOD(Fermata_Server, static);
ZEND_METHOD(Fermata_Server, fastcgi);
ZEND_METHOD(Fermata_Server, websocket);
ZEND_METHOD(Fermata_Server, pusher);
ZEND_METHOD(Fermata_Server, mercure);
ZEND_METHOD(Fermata_Server, every);
ZEND_METHOD(Fermata_Server, defer);
ZEND_METHOD(Fermata_Server, jobs);
ZEND_METHOD(Fermata_Server, onMessage);
ZEND_METHOD(Fermata_Server, routes);
ZEND_METHOD(Fermata_Server, run);
ZEND_METHOD(Fermata_Pusher, __construct);
ZEND_METHOD(Fermata_Pusher, answerAuthorization);
ZEND_METHOD(Fermata_Pusher, answerSignIn);
ZEND_METHOD(Fermata_Mercure, __construct);
ZEND_METHOD(Fermata_Jobs, __construct);
ZEND_METHOD(Fermata_Jobs, add);
ZEND_METHOD(Fermata_Jobs, run);
ZEND_METHOD(Fermata_Worker, __construct);
ZEND_METHOD(Fermata_Worker, index);
ZEND_METHOD(Fermata_Worker, send);
ZEND_METHOD(Fermata_Worker, broadcast);
ZEND_METHOD(Fermata_Worker, receive);
ZEND_METHOD(Fermata_Poll, __construct);
ZEND_METHOD(Fermata_Poll, inHandler);
ZEND_METHOD(Fermata_Poll, watch);
ZEND_METHOD(Fermata_Poll, signal);
ZEND_METHOD(Fermata_Poll, wait);
ZEND_METHOD(Fermata_Poll, wake);
ZEND_METHOD(Fermata_Routes, __construct);
ZEND_METHOD(Fermata_Routes, get);
ZEND_METHOD(Fermata_Routes, post);
ZEND_METHOD(Fermata_Routes, put);
ZEND_METHOD(Fermata_Routes, patch);
ZEND_METHOD(Fermata_Routes, delete);
ZEND_METHOD(Fermata_Routes, options);
ZEND_METHOD(Fermata_Routes, any);
ZEND_METHOD(Fermata_Routes, group);
ZEND_METHOD(Fermata_Routes, use);
ZEND_METHOD(Fermata_Routes, websocket);
ZEND_METHOD(Fermata_Routes, static);
ZEND_METHOD(Fermata_Next, __construct);
ZEND_METHOD(Fermata_Next, __invoke);
ZEND_METHOD(Fermata_Limits, __construct);
ZEND_METHOD(Fermata_History, __construct);
ZEND_METHOD(Fermata_Log, __construct);
ZEND_METHOD(Fermata_AccessLog, __construct);
ZEND_METHOD(Fermata_Tls, __construct);
ZEND_METHOD(Fermata_Tls, development);
ZEND_METHOD(Fermata_ClientCertificate, __construct);
ZEND_METHOD(Fermata_Trace, __construct);
ZEND_METHOD(Fermata_Request, __construct);
ZEND_METHOD(Fermata_Request, method);
ZEND_METHOD(Fermata_Request, path);
ZEND_METHOD(Fermata_Request, target);
ZEND_METHOD(Fermata_Request, queryString);
ZEND_METHOD(Fermata_Request, query);
ZEND_METHOD(Fermata_Request, queries);
ZEND_METHOD(Fermata_Request, header);
ZEND_METHOD(Fermata_Request, headers);
ZEND_METHOD(Fermata_Request, route);
ZEND_METHOD(Fermata_Request, hasBody);
ZEND_METHOD(Fermata_Request, body);
ZEND_METHOD(Fermata_Request, read);
ZEND_METHOD(Fermata_Request, bodyStream);
ZEND_METHOD(Fermata_Request, json);
ZEND_METHOD(Fermata_Request, form);
ZEND_METHOD(Fermata_Request, forms);
ZEND_METHOD(Fermata_Request, file);
ZEND_METHOD(Fermata_Request, files);
ZEND_METHOD(Fermata_Request, cookie);
ZEND_METHOD(Fermata_Request, cookies);
ZEND_METHOD(Fermata_Request, withAttribute);
ZEND_METHOD(Fermata_Request, attribute);
ZEND_METHOD(Fermata_Request, attributes);
ZEND_METHOD(Fermata_Request, lastEventId);
ZEND_METHOD(Fermata_Request, remoteAddress);
ZEND_METHOD(Fermata_Request, remotePort);
ZEND_METHOD(Fermata_Request, host);
ZEND_METHOD(Fermata_Request, scheme);
ZEND_METHOD(Fermata_Request, serverParams);
ZEND_METHOD(Fermata_Request, fillGlobals);
ZEND_METHOD(Fermata_Request, takeOutput);
ZEND_METHOD(Fermata_Request, deferAnswer);
ZEND_METHOD(Fermata_Request, earlyHints);
ZEND_METHOD(Fermata_Request, clientCertificate);
ZEND_METHOD(Fermata_Request, trace);
ZEND_METHOD(Fermata_UploadedFile, __construct);
ZEND_METHOD(Fermata_UploadedFile, moveTo);
ZEND_METHOD(Fermata_UploadedFile, contents);
ZEND_METHOD(Fermata_Response, __construct);
ZEND_METHOD(Fermata_Response, json);
ZEND_METHOD(Fermata_Response, text);
ZEND_METHOD(Fermata_Response, html);
ZEND_METHOD(Fermata_Response, redirect);
ZEND_METHOD(Fermata_Response, stream);
ZEND_METHOD(Fermata_Response, events);
ZEND_METHOD(Fermata_Response, output);
ZEND_METHOD(Fermata_Response, file);
ZEND_METHOD(Fermata_Response, accepted);
ZEND_METHOD(Fermata_Response, noContent);
ZEND_METHOD(Fermata_Response, relayed);
ZEND_METHOD(Fermata_Response, withStatus);
ZEND_METHOD(Fermata_Response, withHeader);
ZEND_METHOD(Fermata_Response, withAddedHeader);
ZEND_METHOD(Fermata_Response, withCookie);
ZEND_METHOD(Fermata_Response, status);
ZEND_METHOD(Fermata_Response, body);
ZEND_METHOD(Fermata_Response, header);
ZEND_METHOD(Fermata_Response, headers);
ZEND_METHOD(Fermata_EventSink, __construct);
ZEND_METHOD(Fermata_EventSink, send);
ZEND_METHOD(Fermata_EventSink, comment);
ZEND_METHOD(Fermata_EventSink, flush);
ZEND_METHOD(Fermata_EventSink, close);
ZEND_METHOD(Fermata_EventSink, isOpen);
ZEND_METHOD(Fermata_EventSink, isStopping);
ZEND_METHOD(Fermata_Hold, __construct);
ZEND_METHOD(Fermata_Hold, sse);
ZEND_METHOD(Fermata_Hold, as);
ZEND_METHOD(Fermata_Hold, since);
ZEND_METHOD(Fermata_Hold, fromStart);
ZEND_METHOD(Fermata_Hold, fromNow);
ZEND_METHOD(Fermata_Hold, keepAlive);
ZEND_METHOD(Fermata_Hold, with);
ZEND_METHOD(Fermata_Hold, slow);
ZEND_METHOD(Fermata_Hold, withHeader);
ZEND_METHOD(Fermata_Hold, withAddedHeader);
ZEND_METHOD(Fermata_Event, __construct);
ZEND_METHOD(Fermata_Event, json);
ZEND_METHOD(Fermata_Channel, __construct);
ZEND_METHOD(Fermata_Channel, get);
ZEND_METHOD(Fermata_Channel, publish);
ZEND_METHOD(Fermata_Channel, publishExcept);
ZEND_METHOD(Fermata_Channel, members);
ZEND_METHOD(Fermata_Channel, memberCount);
ZEND_METHOD(Fermata_Channel, history);
ZEND_METHOD(Fermata_Channel, read);
ZEND_METHOD(Fermata_ChannelReader, __construct);
ZEND_METHOD(Fermata_ChannelReader, receive);
ZEND_METHOD(Fermata_ChannelReader, getIterator);
ZEND_METHOD(Fermata_Member, __construct);
ZEND_METHOD(Fermata_Publisher, __construct);
ZEND_METHOD(Fermata_Publisher, publish);
ZEND_METHOD(Fermata_WebSocketHandler, upgrade);
ZEND_METHOD(Fermata_WebSocketHandler, open);
ZEND_METHOD(Fermata_WebSocketHandler, message);
ZEND_METHOD(Fermata_WebSocketHandler, close);
ZEND_METHOD(Fermata_WebSocket, __construct);
ZEND_METHOD(Fermata_WebSocket, id);
ZEND_METHOD(Fermata_WebSocket, send);
ZEND_METHOD(Fermata_WebSocket, sendBinary);
ZEND_METHOD(Fermata_WebSocket, trySend);
ZEND_METHOD(Fermata_WebSocket, sendTo);
ZEND_METHOD(Fermata_WebSocket, close);
ZEND_METHOD(Fermata_WebSocket, join);
ZEND_METHOD(Fermata_WebSocket, leave);
ZEND_METHOD(Fermata_WebSocket, data);
ZEND_METHOD(Fermata_WebSocket, setData);
ZEND_METHOD(Fermata_WebSocket, isOpen);
ZEND_METHOD(Fermata_WebSocket, queuedBytes);
ZEND_METHOD(Fermata_WebSocket, protocol);
ZEND_METHOD(Fermata_WebSocket, remoteAddress);
ZEND_METHOD(Fermata_WebSocket, remotePort);
ZEND_METHOD(Fermata_Future, __construct);
ZEND_METHOD(Fermata_Future, await);
ZEND_METHOD(Fermata_Future, isDone);
ZEND_METHOD(Fermata_Future, cancel);
ZEND_METHOD(Fermata_Cancellation, cancel);
ZEND_METHOD(Fermata_Cancellation, isCancelled);
ZEND_METHOD(Fermata_Cancellation, run);
ZEND_METHOD(Fermata_Runtime, hook);
ZEND_METHOD(Fermata_Runtime, hooks);
ZEND_METHOD(Fermata_Runtime, setSapiName);
ZEND_METHOD(Fermata_Runtime, replaceWorker);
ZEND_METHOD(Fermata_Runtime, isToRestart);
ZEND_METHOD(Fermata_Runtime, keepOnCancel);
ZEND_METHOD(Fermata_Table, __construct);
ZEND_METHOD(Fermata_Table, set);
ZEND_METHOD(Fermata_Table, get);
ZEND_METHOD(Fermata_Table, value);
ZEND_METHOD(Fermata_Table, exists);
ZEND_METHOD(Fermata_Table, increment);
ZEND_METHOD(Fermata_Table, decrement);
ZEND_METHOD(Fermata_Table, delete);
ZEND_METHOD(Fermata_Table, clear);
ZEND_METHOD(Fermata_Table, count);
ZEND_METHOD(Fermata_Table, getIterator);
ZEND_METHOD(Fermata_Pool, __construct);
ZEND_METHOD(Fermata_Pool, use);
ZEND_METHOD(Fermata_Pool, close);
ZEND_METHOD(Fermata_Pool, idle);
ZEND_METHOD(Fermata_Pool, borrowed);
ZEND_METHOD(Fermata_Pool, waiting);
ZEND_METHOD(Fermata_Context, get);
ZEND_METHOD(Fermata_Context, set);
ZEND_METHOD(Fermata_File, __construct);
ZEND_METHOD(Fermata_File, read);
ZEND_METHOD(Fermata_File, write);
ZEND_METHOD(Fermata_File, copy);
ZEND_METHOD(Fermata_File, stat);
ZEND_METHOD(Fermata_File, exists);
ZEND_METHOD(Fermata_File, list);
ZEND_METHOD(Fermata_File, remove);
ZEND_METHOD(Fermata_File, rename);
ZEND_METHOD(Fermata_File, makeDirectory);
ZEND_METHOD(Fermata_File, lines);
ZEND_METHOD(Fermata_File, blocks);
ZEND_METHOD(Fermata_File, open);
ZEND_METHOD(Fermata_File, temporary);
ZEND_METHOD(Fermata_File, readBlock);
ZEND_METHOD(Fermata_File, readLine);
ZEND_METHOD(Fermata_File, writeBlock);
ZEND_METHOD(Fermata_File, seek);
ZEND_METHOD(Fermata_File, position);
ZEND_METHOD(Fermata_File, size);
ZEND_METHOD(Fermata_File, truncate);
ZEND_METHOD(Fermata_File, sync);
ZEND_METHOD(Fermata_File, lock);
ZEND_METHOD(Fermata_File, tryLock);
ZEND_METHOD(Fermata_File, unlock);
ZEND_METHOD(Fermata_File, keep);
ZEND_METHOD(Fermata_File, close);
ZEND_METHOD(Fermata_File_Stat, __construct);
ZEND_METHOD(Fermata_File_Stat, isFile);
ZEND_METHOD(Fermata_File_Stat, isDirectory);
ZEND_METHOD(Fermata_File_Pieces, __construct);
ZEND_METHOD(Fermata_File_Pieces, current);
ZEND_METHOD(Fermata_File_Pieces, key);
ZEND_METHOD(Fermata_File_Pieces, next);
ZEND_METHOD(Fermata_File_Pieces, rewind);
ZEND_METHOD(Fermata_File_Pieces, valid);
ZEND_METHOD(Fermata_Sync_Mutex, lock);
ZEND_METHOD(Fermata_Sync_Mutex, tryLock);
ZEND_METHOD(Fermata_Sync_Mutex, unlock);
ZEND_METHOD(Fermata_Sync_Mutex, isLocked);
ZEND_METHOD(Fermata_Sync_Mutex, synchronized);
ZEND_METHOD(Fermata_Sync_Semaphore, __construct);
ZEND_METHOD(Fermata_Sync_Semaphore, acquire);
ZEND_METHOD(Fermata_Sync_Semaphore, tryAcquire);
ZEND_METHOD(Fermata_Sync_Semaphore, release);
ZEND_METHOD(Fermata_Sync_Semaphore, run);
ZEND_METHOD(Fermata_Sync_Queue, __construct);
ZEND_METHOD(Fermata_Sync_Queue, push);
ZEND_METHOD(Fermata_Sync_Queue, tryPush);
ZEND_METHOD(Fermata_Sync_Queue, pop);
ZEND_METHOD(Fermata_Sync_Queue, tryPop);
ZEND_METHOD(Fermata_Sync_Queue, close);
ZEND_METHOD(Fermata_Sync_Queue, isClosed);
ZEND_METHOD(Fermata_Sync_Queue, count);
ZEND_METHOD(Fermata_Sync_Queue, getIterator);
ZEND_METHOD(Fermata_Table_Column, __construct);
ZEND_METHOD(Fermata_Table_Column, int);
ZEND_METHOD(Fermata_Table_Column, float);
ZEND_METHOD(Fermata_Table_Column, string);
ZEND_METHOD(Fermata_WebSocket_Upgrade, __construct);
ZEND_METHOD(Fermata_WebSocket_Upgrade, request);
ZEND_METHOD(Fermata_WebSocket_Upgrade, protocols);
ZEND_METHOD(Fermata_WebSocket_Upgrade, origin);
ZEND_METHOD(Fermata_WebSocket_Upgrade, accept);
ZEND_METHOD(Fermata_WebSocket_Upgrade, refuse);
ZEND_METHOD(Fermata_WebSocket_Upgrade, setData);
ZEND_METHOD(Fermata_WebSocket_Message, __construct);
ZEND_METHOD(Fermata_WebSocket_Message, data);
ZEND_METHOD(Fermata_WebSocket_Message, isBinary);
ZEND_METHOD(Fermata_WebSocket_Message, json);
ZEND_METHOD(Fermata_WebSocket_Message, __toString);
ZEND_METHOD(Fermata_WebSocket_Message, jsonSerialize);
ZEND_METHOD(Fermata_WebSocket_Options, __construct);
ZEND_METHOD(Fermata_WebSocket_Compression, __construct);
ZEND_METHOD(Fermata_WebSocket_Codec, __construct);
ZEND_METHOD(Fermata_WebSocket_Codec, acceptKey);
ZEND_METHOD(Fermata_WebSocket_Codec, encode);
ZEND_METHOD(Fermata_WebSocket_Codec, encodeClose);
ZEND_METHOD(Fermata_WebSocket_Codec, decode);
ZEND_METHOD(Fermata_WebSocket_Client, __construct);
ZEND_METHOD(Fermata_WebSocket_Client, connect);
ZEND_METHOD(Fermata_WebSocket_Client, send);
ZEND_METHOD(Fermata_WebSocket_Client, sendBinary);
ZEND_METHOD(Fermata_WebSocket_Client, receive);
ZEND_METHOD(Fermata_WebSocket_Client, ping);
ZEND_METHOD(Fermata_WebSocket_Client, close);
ZEND_METHOD(Fermata_WebSocket_Client, isOpen);
ZEND_METHOD(Fermata_WebSocket_Client, protocol);
ZEND_METHOD(Fermata_WebSocket_Client, lastPong);
ZEND_METHOD(Fermata_WebSocket_Client, closeCode);
ZEND_METHOD(Fermata_WebSocket_Client, closeReason);
ZEND_METHOD(Fermata_WebSocket_Frame, __construct);
ZEND_METHOD(Fermata_Testing_Engine, __construct);
ZEND_METHOD(Fermata_Testing_Engine, connect);
ZEND_METHOD(Fermata_Testing_Engine, run);
ZEND_METHOD(Fermata_Testing_Engine, advance);
ZEND_METHOD(Fermata_Testing_Engine, takeException);
ZEND_METHOD(Fermata_Testing_Engine, takeHold);
ZEND_METHOD(Fermata_Testing_Engine, log);
ZEND_METHOD(Fermata_Testing_Engine, stop);
ZEND_METHOD(Fermata_Pusher_Webhook, __construct);
ZEND_METHOD(Fermata_Exception_ProtocolException, closeCode);


static const zend_function_entry ext_functions[] = {
	ZEND_NS_FALIAS("Fermata", delay, Fermata_delay, arginfo_Fermata_delay)
	ZEND_NS_FALIAS("Fermata", async, Fermata_async, arginfo_Fermata_async)
	ZEND_NS_FALIAS("Fermata", await, Fermata_await, arginfo_Fermata_await)
	ZEND_NS_FALIAS("Fermata", all, Fermata_all, arginfo_Fermata_all)
	ZEND_NS_FALIAS("Fermata", race, Fermata_race, arginfo_Fermata_race)
	ZEND_NS_FALIAS("Fermata", timeout, Fermata_timeout, arginfo_Fermata_timeout)
	ZEND_NS_FALIAS("Fermata", shield, Fermata_shield, arginfo_Fermata_shield)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Server_methods[] = {
	ZEND_ME(Fermata_Server, __construct, arginfo_class_Fermata_Server___construct, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, get, arginfo_class_Fermata_Server_get, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, post, arginfo_class_Fermata_Server_post, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, put, arginfo_class_Fermata_Server_put, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, patch, arginfo_class_Fermata_Server_patch, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, delete, arginfo_class_Fermata_Server_delete, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, options, arginfo_class_Fermata_Server_options, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, any, arginfo_class_Fermata_Server_any, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, group, arginfo_class_Fermata_Server_group, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, use, arginfo_class_Fermata_Server_use, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, notFound, arginfo_class_Fermata_Server_notFound, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, error, arginfo_class_Fermata_Server_error, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, static, arginfo_class_Fermata_Server_static, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, fastcgi, arginfo_class_Fermata_Server_fastcgi, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, websocket, arginfo_class_Fermata_Server_websocket, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, pusher, arginfo_class_Fermata_Server_pusher, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, mercure, arginfo_class_Fermata_Server_mercure, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, every, arginfo_class_Fermata_Server_every, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, defer, arginfo_class_Fermata_Server_defer, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, jobs, arginfo_class_Fermata_Server_jobs, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, onMessage, arginfo_class_Fermata_Server_onMessage, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, routes, arginfo_class_Fermata_Server_routes, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Server, run, arginfo_class_Fermata_Server_run, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Pusher_methods[] = {
	ZEND_ME(Fermata_Pusher, __construct, arginfo_class_Fermata_Pusher___construct, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Pusher, answerAuthorization, arginfo_class_Fermata_Pusher_answerAuthorization, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Pusher, answerSignIn, arginfo_class_Fermata_Pusher_answerSignIn, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Mercure_methods[] = {
	ZEND_ME(Fermata_Mercure, __construct, arginfo_class_Fermata_Mercure___construct, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Jobs_methods[] = {
	ZEND_ME(Fermata_Jobs, __construct, arginfo_class_Fermata_Jobs___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_Jobs, add, arginfo_class_Fermata_Jobs_add, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Jobs, run, arginfo_class_Fermata_Jobs_run, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Worker_methods[] = {
	ZEND_ME(Fermata_Worker, __construct, arginfo_class_Fermata_Worker___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_Worker, index, arginfo_class_Fermata_Worker_index, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Worker, send, arginfo_class_Fermata_Worker_send, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Worker, broadcast, arginfo_class_Fermata_Worker_broadcast, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Worker, receive, arginfo_class_Fermata_Worker_receive, ZEND_ACC_PRIVATE|ZEND_ACC_STATIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Poll_methods[] = {
	ZEND_ME(Fermata_Poll, __construct, arginfo_class_Fermata_Poll___construct, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Poll, inHandler, arginfo_class_Fermata_Poll_inHandler, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Poll, watch, arginfo_class_Fermata_Poll_watch, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Poll, signal, arginfo_class_Fermata_Poll_signal, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Poll, wait, arginfo_class_Fermata_Poll_wait, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Poll, wake, arginfo_class_Fermata_Poll_wake, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Routes_methods[] = {
	ZEND_ME(Fermata_Routes, __construct, arginfo_class_Fermata_Routes___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_Routes, get, arginfo_class_Fermata_Routes_get, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Routes, post, arginfo_class_Fermata_Routes_post, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Routes, put, arginfo_class_Fermata_Routes_put, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Routes, patch, arginfo_class_Fermata_Routes_patch, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Routes, delete, arginfo_class_Fermata_Routes_delete, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Routes, options, arginfo_class_Fermata_Routes_options, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Routes, any, arginfo_class_Fermata_Routes_any, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Routes, group, arginfo_class_Fermata_Routes_group, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Routes, use, arginfo_class_Fermata_Routes_use, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Routes, websocket, arginfo_class_Fermata_Routes_websocket, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Routes, static, arginfo_class_Fermata_Routes_static, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Next_methods[] = {
	ZEND_ME(Fermata_Next, __construct, arginfo_class_Fermata_Next___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_Next, __invoke, arginfo_class_Fermata_Next___invoke, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Limits_methods[] = {
	ZEND_ME(Fermata_Limits, __construct, arginfo_class_Fermata_Limits___construct, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_History_methods[] = {
	ZEND_ME(Fermata_History, __construct, arginfo_class_Fermata_History___construct, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Log_methods[] = {
	ZEND_ME(Fermata_Log, __construct, arginfo_class_Fermata_Log___construct, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_AccessLog_methods[] = {
	ZEND_ME(Fermata_AccessLog, __construct, arginfo_class_Fermata_AccessLog___construct, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Tls_methods[] = {
	ZEND_ME(Fermata_Tls, __construct, arginfo_class_Fermata_Tls___construct, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Tls, development, arginfo_class_Fermata_Tls_development, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_TlsVersion_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_ClientCertificate_methods[] = {
	ZEND_ME(Fermata_ClientCertificate, __construct, arginfo_class_Fermata_ClientCertificate___construct, ZEND_ACC_PRIVATE)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Trace_methods[] = {
	ZEND_ME(Fermata_Trace, __construct, arginfo_class_Fermata_Trace___construct, ZEND_ACC_PRIVATE)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_LogFormat_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_AccessLogFormat_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_LogLevel_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_SlowPolicy_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Ack_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_SameSite_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Request_methods[] = {
	ZEND_ME(Fermata_Request, __construct, arginfo_class_Fermata_Request___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_Request, method, arginfo_class_Fermata_Request_method, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, path, arginfo_class_Fermata_Request_path, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, target, arginfo_class_Fermata_Request_target, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, queryString, arginfo_class_Fermata_Request_queryString, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, query, arginfo_class_Fermata_Request_query, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, queries, arginfo_class_Fermata_Request_queries, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, header, arginfo_class_Fermata_Request_header, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, headers, arginfo_class_Fermata_Request_headers, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, route, arginfo_class_Fermata_Request_route, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, hasBody, arginfo_class_Fermata_Request_hasBody, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, body, arginfo_class_Fermata_Request_body, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, read, arginfo_class_Fermata_Request_read, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, bodyStream, arginfo_class_Fermata_Request_bodyStream, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, json, arginfo_class_Fermata_Request_json, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, form, arginfo_class_Fermata_Request_form, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, forms, arginfo_class_Fermata_Request_forms, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, file, arginfo_class_Fermata_Request_file, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, files, arginfo_class_Fermata_Request_files, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, cookie, arginfo_class_Fermata_Request_cookie, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, cookies, arginfo_class_Fermata_Request_cookies, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, withAttribute, arginfo_class_Fermata_Request_withAttribute, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, attribute, arginfo_class_Fermata_Request_attribute, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, attributes, arginfo_class_Fermata_Request_attributes, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, lastEventId, arginfo_class_Fermata_Request_lastEventId, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, remoteAddress, arginfo_class_Fermata_Request_remoteAddress, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, remotePort, arginfo_class_Fermata_Request_remotePort, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, host, arginfo_class_Fermata_Request_host, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, scheme, arginfo_class_Fermata_Request_scheme, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, serverParams, arginfo_class_Fermata_Request_serverParams, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, fillGlobals, arginfo_class_Fermata_Request_fillGlobals, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, takeOutput, arginfo_class_Fermata_Request_takeOutput, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, deferAnswer, arginfo_class_Fermata_Request_deferAnswer, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, earlyHints, arginfo_class_Fermata_Request_earlyHints, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, clientCertificate, arginfo_class_Fermata_Request_clientCertificate, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Request, trace, arginfo_class_Fermata_Request_trace, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_UploadedFile_methods[] = {
	ZEND_ME(Fermata_UploadedFile, __construct, arginfo_class_Fermata_UploadedFile___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_UploadedFile, moveTo, arginfo_class_Fermata_UploadedFile_moveTo, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_UploadedFile, contents, arginfo_class_Fermata_UploadedFile_contents, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Response_methods[] = {
	ZEND_ME(Fermata_Response, __construct, arginfo_class_Fermata_Response___construct, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Response, json, arginfo_class_Fermata_Response_json, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Response, text, arginfo_class_Fermata_Response_text, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Response, html, arginfo_class_Fermata_Response_html, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Response, redirect, arginfo_class_Fermata_Response_redirect, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Response, stream, arginfo_class_Fermata_Response_stream, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Response, events, arginfo_class_Fermata_Response_events, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Response, output, arginfo_class_Fermata_Response_output, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Response, file, arginfo_class_Fermata_Response_file, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Response, accepted, arginfo_class_Fermata_Response_accepted, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Response, noContent, arginfo_class_Fermata_Response_noContent, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Response, relayed, arginfo_class_Fermata_Response_relayed, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Response, withStatus, arginfo_class_Fermata_Response_withStatus, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Response, withHeader, arginfo_class_Fermata_Response_withHeader, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Response, withAddedHeader, arginfo_class_Fermata_Response_withAddedHeader, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Response, withCookie, arginfo_class_Fermata_Response_withCookie, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Response, status, arginfo_class_Fermata_Response_status, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Response, body, arginfo_class_Fermata_Response_body, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Response, header, arginfo_class_Fermata_Response_header, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Response, headers, arginfo_class_Fermata_Response_headers, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_EventSink_methods[] = {
	ZEND_ME(Fermata_EventSink, __construct, arginfo_class_Fermata_EventSink___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_EventSink, send, arginfo_class_Fermata_EventSink_send, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_EventSink, comment, arginfo_class_Fermata_EventSink_comment, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_EventSink, flush, arginfo_class_Fermata_EventSink_flush, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_EventSink, close, arginfo_class_Fermata_EventSink_close, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_EventSink, isOpen, arginfo_class_Fermata_EventSink_isOpen, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_EventSink, isStopping, arginfo_class_Fermata_EventSink_isStopping, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Hold_methods[] = {
	ZEND_ME(Fermata_Hold, __construct, arginfo_class_Fermata_Hold___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_Hold, sse, arginfo_class_Fermata_Hold_sse, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Hold, as, arginfo_class_Fermata_Hold_as, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Hold, since, arginfo_class_Fermata_Hold_since, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Hold, fromStart, arginfo_class_Fermata_Hold_fromStart, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Hold, fromNow, arginfo_class_Fermata_Hold_fromNow, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Hold, keepAlive, arginfo_class_Fermata_Hold_keepAlive, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Hold, with, arginfo_class_Fermata_Hold_with, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Hold, slow, arginfo_class_Fermata_Hold_slow, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Hold, withHeader, arginfo_class_Fermata_Hold_withHeader, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Hold, withAddedHeader, arginfo_class_Fermata_Hold_withAddedHeader, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Event_methods[] = {
	ZEND_ME(Fermata_Event, __construct, arginfo_class_Fermata_Event___construct, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Event, json, arginfo_class_Fermata_Event_json, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Channel_methods[] = {
	ZEND_ME(Fermata_Channel, __construct, arginfo_class_Fermata_Channel___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_Channel, get, arginfo_class_Fermata_Channel_get, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Channel, publish, arginfo_class_Fermata_Channel_publish, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Channel, publishExcept, arginfo_class_Fermata_Channel_publishExcept, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Channel, members, arginfo_class_Fermata_Channel_members, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Channel, memberCount, arginfo_class_Fermata_Channel_memberCount, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Channel, history, arginfo_class_Fermata_Channel_history, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Channel, read, arginfo_class_Fermata_Channel_read, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_ChannelReader_methods[] = {
	ZEND_ME(Fermata_ChannelReader, __construct, arginfo_class_Fermata_ChannelReader___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_ChannelReader, receive, arginfo_class_Fermata_ChannelReader_receive, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_ChannelReader, getIterator, arginfo_class_Fermata_ChannelReader_getIterator, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Member_methods[] = {
	ZEND_ME(Fermata_Member, __construct, arginfo_class_Fermata_Member___construct, ZEND_ACC_PRIVATE)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Publisher_methods[] = {
	ZEND_ME(Fermata_Publisher, __construct, arginfo_class_Fermata_Publisher___construct, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Publisher, publish, arginfo_class_Fermata_Publisher_publish, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_WebSocketHandler_methods[] = {
	ZEND_ME(Fermata_WebSocketHandler, upgrade, arginfo_class_Fermata_WebSocketHandler_upgrade, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocketHandler, open, arginfo_class_Fermata_WebSocketHandler_open, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocketHandler, message, arginfo_class_Fermata_WebSocketHandler_message, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocketHandler, close, arginfo_class_Fermata_WebSocketHandler_close, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_WebSocket_methods[] = {
	ZEND_ME(Fermata_WebSocket, __construct, arginfo_class_Fermata_WebSocket___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_WebSocket, id, arginfo_class_Fermata_WebSocket_id, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket, send, arginfo_class_Fermata_WebSocket_send, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket, sendBinary, arginfo_class_Fermata_WebSocket_sendBinary, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket, trySend, arginfo_class_Fermata_WebSocket_trySend, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket, sendTo, arginfo_class_Fermata_WebSocket_sendTo, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_WebSocket, close, arginfo_class_Fermata_WebSocket_close, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket, join, arginfo_class_Fermata_WebSocket_join, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket, leave, arginfo_class_Fermata_WebSocket_leave, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket, data, arginfo_class_Fermata_WebSocket_data, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket, setData, arginfo_class_Fermata_WebSocket_setData, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket, isOpen, arginfo_class_Fermata_WebSocket_isOpen, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket, queuedBytes, arginfo_class_Fermata_WebSocket_queuedBytes, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket, protocol, arginfo_class_Fermata_WebSocket_protocol, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket, remoteAddress, arginfo_class_Fermata_WebSocket_remoteAddress, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket, remotePort, arginfo_class_Fermata_WebSocket_remotePort, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Future_methods[] = {
	ZEND_ME(Fermata_Future, __construct, arginfo_class_Fermata_Future___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_Future, await, arginfo_class_Fermata_Future_await, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Future, isDone, arginfo_class_Fermata_Future_isDone, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Future, cancel, arginfo_class_Fermata_Future_cancel, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Cancellation_methods[] = {
	ZEND_ME(Fermata_Cancellation, cancel, arginfo_class_Fermata_Cancellation_cancel, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Cancellation, isCancelled, arginfo_class_Fermata_Cancellation_isCancelled, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Cancellation, run, arginfo_class_Fermata_Cancellation_run, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Hook_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Runtime_methods[] = {
	ZEND_ME(Fermata_Runtime, hook, arginfo_class_Fermata_Runtime_hook, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Runtime, hooks, arginfo_class_Fermata_Runtime_hooks, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Runtime, setSapiName, arginfo_class_Fermata_Runtime_setSapiName, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Runtime, replaceWorker, arginfo_class_Fermata_Runtime_replaceWorker, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Runtime, isToRestart, arginfo_class_Fermata_Runtime_isToRestart, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Runtime, keepOnCancel, arginfo_class_Fermata_Runtime_keepOnCancel, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Table_methods[] = {
	ZEND_ME(Fermata_Table, __construct, arginfo_class_Fermata_Table___construct, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Table, set, arginfo_class_Fermata_Table_set, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Table, get, arginfo_class_Fermata_Table_get, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Table, value, arginfo_class_Fermata_Table_value, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Table, exists, arginfo_class_Fermata_Table_exists, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Table, increment, arginfo_class_Fermata_Table_increment, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Table, decrement, arginfo_class_Fermata_Table_decrement, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Table, delete, arginfo_class_Fermata_Table_delete, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Table, clear, arginfo_class_Fermata_Table_clear, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Table, count, arginfo_class_Fermata_Table_count, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Table, getIterator, arginfo_class_Fermata_Table_getIterator, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Pool_methods[] = {
	ZEND_ME(Fermata_Pool, __construct, arginfo_class_Fermata_Pool___construct, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Pool, use, arginfo_class_Fermata_Pool_use, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Pool, close, arginfo_class_Fermata_Pool_close, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Pool, idle, arginfo_class_Fermata_Pool_idle, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Pool, borrowed, arginfo_class_Fermata_Pool_borrowed, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Pool, waiting, arginfo_class_Fermata_Pool_waiting, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Context_methods[] = {
	ZEND_ME(Fermata_Context, get, arginfo_class_Fermata_Context_get, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Context, set, arginfo_class_Fermata_Context_set, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_File_methods[] = {
	ZEND_ME(Fermata_File, __construct, arginfo_class_Fermata_File___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_File, read, arginfo_class_Fermata_File_read, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_File, write, arginfo_class_Fermata_File_write, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_File, copy, arginfo_class_Fermata_File_copy, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_File, stat, arginfo_class_Fermata_File_stat, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_File, exists, arginfo_class_Fermata_File_exists, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_File, list, arginfo_class_Fermata_File_list, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_File, remove, arginfo_class_Fermata_File_remove, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_File, rename, arginfo_class_Fermata_File_rename, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_File, makeDirectory, arginfo_class_Fermata_File_makeDirectory, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_File, lines, arginfo_class_Fermata_File_lines, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_File, blocks, arginfo_class_Fermata_File_blocks, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_File, open, arginfo_class_Fermata_File_open, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_File, temporary, arginfo_class_Fermata_File_temporary, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_File, readBlock, arginfo_class_Fermata_File_readBlock, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File, readLine, arginfo_class_Fermata_File_readLine, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File, writeBlock, arginfo_class_Fermata_File_writeBlock, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File, seek, arginfo_class_Fermata_File_seek, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File, position, arginfo_class_Fermata_File_position, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File, size, arginfo_class_Fermata_File_size, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File, truncate, arginfo_class_Fermata_File_truncate, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File, sync, arginfo_class_Fermata_File_sync, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File, lock, arginfo_class_Fermata_File_lock, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File, tryLock, arginfo_class_Fermata_File_tryLock, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File, unlock, arginfo_class_Fermata_File_unlock, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File, keep, arginfo_class_Fermata_File_keep, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File, close, arginfo_class_Fermata_File_close, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_File_WriteMode_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_File_OpenMode_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_File_Type_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_File_Stat_methods[] = {
	ZEND_ME(Fermata_File_Stat, __construct, arginfo_class_Fermata_File_Stat___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_File_Stat, isFile, arginfo_class_Fermata_File_Stat_isFile, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File_Stat, isDirectory, arginfo_class_Fermata_File_Stat_isDirectory, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_File_Pieces_methods[] = {
	ZEND_ME(Fermata_File_Pieces, __construct, arginfo_class_Fermata_File_Pieces___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_File_Pieces, current, arginfo_class_Fermata_File_Pieces_current, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File_Pieces, key, arginfo_class_Fermata_File_Pieces_key, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File_Pieces, next, arginfo_class_Fermata_File_Pieces_next, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File_Pieces, rewind, arginfo_class_Fermata_File_Pieces_rewind, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_File_Pieces, valid, arginfo_class_Fermata_File_Pieces_valid, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Sync_Mutex_methods[] = {
	ZEND_ME(Fermata_Sync_Mutex, lock, arginfo_class_Fermata_Sync_Mutex_lock, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Mutex, tryLock, arginfo_class_Fermata_Sync_Mutex_tryLock, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Mutex, unlock, arginfo_class_Fermata_Sync_Mutex_unlock, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Mutex, isLocked, arginfo_class_Fermata_Sync_Mutex_isLocked, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Mutex, synchronized, arginfo_class_Fermata_Sync_Mutex_synchronized, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Sync_Semaphore_methods[] = {
	ZEND_ME(Fermata_Sync_Semaphore, __construct, arginfo_class_Fermata_Sync_Semaphore___construct, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Semaphore, acquire, arginfo_class_Fermata_Sync_Semaphore_acquire, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Semaphore, tryAcquire, arginfo_class_Fermata_Sync_Semaphore_tryAcquire, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Semaphore, release, arginfo_class_Fermata_Sync_Semaphore_release, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Semaphore, run, arginfo_class_Fermata_Sync_Semaphore_run, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Sync_Queue_methods[] = {
	ZEND_ME(Fermata_Sync_Queue, __construct, arginfo_class_Fermata_Sync_Queue___construct, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Queue, push, arginfo_class_Fermata_Sync_Queue_push, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Queue, tryPush, arginfo_class_Fermata_Sync_Queue_tryPush, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Queue, pop, arginfo_class_Fermata_Sync_Queue_pop, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Queue, tryPop, arginfo_class_Fermata_Sync_Queue_tryPop, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Queue, close, arginfo_class_Fermata_Sync_Queue_close, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Queue, isClosed, arginfo_class_Fermata_Sync_Queue_isClosed, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Queue, count, arginfo_class_Fermata_Sync_Queue_count, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Sync_Queue, getIterator, arginfo_class_Fermata_Sync_Queue_getIterator, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Table_Type_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Table_Column_methods[] = {
	ZEND_ME(Fermata_Table_Column, __construct, arginfo_class_Fermata_Table_Column___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_Table_Column, int, arginfo_class_Fermata_Table_Column_int, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Table_Column, float, arginfo_class_Fermata_Table_Column_float, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_Table_Column, string, arginfo_class_Fermata_Table_Column_string, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_WebSocket_Upgrade_methods[] = {
	ZEND_ME(Fermata_WebSocket_Upgrade, __construct, arginfo_class_Fermata_WebSocket_Upgrade___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_WebSocket_Upgrade, request, arginfo_class_Fermata_WebSocket_Upgrade_request, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Upgrade, protocols, arginfo_class_Fermata_WebSocket_Upgrade_protocols, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Upgrade, origin, arginfo_class_Fermata_WebSocket_Upgrade_origin, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Upgrade, accept, arginfo_class_Fermata_WebSocket_Upgrade_accept, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Upgrade, refuse, arginfo_class_Fermata_WebSocket_Upgrade_refuse, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Upgrade, setData, arginfo_class_Fermata_WebSocket_Upgrade_setData, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_WebSocket_Message_methods[] = {
	ZEND_ME(Fermata_WebSocket_Message, __construct, arginfo_class_Fermata_WebSocket_Message___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_WebSocket_Message, data, arginfo_class_Fermata_WebSocket_Message_data, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Message, isBinary, arginfo_class_Fermata_WebSocket_Message_isBinary, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Message, json, arginfo_class_Fermata_WebSocket_Message_json, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Message, __toString, arginfo_class_Fermata_WebSocket_Message___toString, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Message, jsonSerialize, arginfo_class_Fermata_WebSocket_Message_jsonSerialize, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_WebSocket_QueuePolicy_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_WebSocket_Format_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_WebSocket_Options_methods[] = {
	ZEND_ME(Fermata_WebSocket_Options, __construct, arginfo_class_Fermata_WebSocket_Options___construct, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_WebSocket_Compression_methods[] = {
	ZEND_ME(Fermata_WebSocket_Compression, __construct, arginfo_class_Fermata_WebSocket_Compression___construct, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_WebSocket_Codec_methods[] = {
	ZEND_ME(Fermata_WebSocket_Codec, __construct, arginfo_class_Fermata_WebSocket_Codec___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_WebSocket_Codec, acceptKey, arginfo_class_Fermata_WebSocket_Codec_acceptKey, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_WebSocket_Codec, encode, arginfo_class_Fermata_WebSocket_Codec_encode, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_WebSocket_Codec, encodeClose, arginfo_class_Fermata_WebSocket_Codec_encodeClose, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_WebSocket_Codec, decode, arginfo_class_Fermata_WebSocket_Codec_decode, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_WebSocket_Client_methods[] = {
	ZEND_ME(Fermata_WebSocket_Client, __construct, arginfo_class_Fermata_WebSocket_Client___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Fermata_WebSocket_Client, connect, arginfo_class_Fermata_WebSocket_Client_connect, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Fermata_WebSocket_Client, send, arginfo_class_Fermata_WebSocket_Client_send, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Client, sendBinary, arginfo_class_Fermata_WebSocket_Client_sendBinary, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Client, receive, arginfo_class_Fermata_WebSocket_Client_receive, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Client, ping, arginfo_class_Fermata_WebSocket_Client_ping, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Client, close, arginfo_class_Fermata_WebSocket_Client_close, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Client, isOpen, arginfo_class_Fermata_WebSocket_Client_isOpen, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Client, protocol, arginfo_class_Fermata_WebSocket_Client_protocol, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Client, lastPong, arginfo_class_Fermata_WebSocket_Client_lastPong, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Client, closeCode, arginfo_class_Fermata_WebSocket_Client_closeCode, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_WebSocket_Client, closeReason, arginfo_class_Fermata_WebSocket_Client_closeReason, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_WebSocket_Frame_methods[] = {
	ZEND_ME(Fermata_WebSocket_Frame, __construct, arginfo_class_Fermata_WebSocket_Frame___construct, ZEND_ACC_PRIVATE)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_WebSocket_Opcode_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_WebSocket_CloseCode_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Testing_Engine_methods[] = {
	ZEND_ME(Fermata_Testing_Engine, __construct, arginfo_class_Fermata_Testing_Engine___construct, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Testing_Engine, connect, arginfo_class_Fermata_Testing_Engine_connect, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Testing_Engine, run, arginfo_class_Fermata_Testing_Engine_run, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Testing_Engine, advance, arginfo_class_Fermata_Testing_Engine_advance, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Testing_Engine, takeException, arginfo_class_Fermata_Testing_Engine_takeException, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Testing_Engine, takeHold, arginfo_class_Fermata_Testing_Engine_takeHold, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Testing_Engine, log, arginfo_class_Fermata_Testing_Engine_log, ZEND_ACC_PUBLIC)
	ZEND_ME(Fermata_Testing_Engine, stop, arginfo_class_Fermata_Testing_Engine_stop, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Pusher_Webhook_methods[] = {
	ZEND_ME(Fermata_Pusher_Webhook, __construct, arginfo_class_Fermata_Pusher_Webhook___construct, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Pusher_WebhookEvent_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Mercure_Algorithm_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_FermataException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_MisuseError_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_ConfigurationException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_BackpressureException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_BadRequestException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_UploadException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_ConnectionClosedException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_ConnectionException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_TimeoutException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_CancelledException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_ClientGoneException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_SharedTransactionException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_QueueClosedException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_GapException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_JobFailedException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_JobCrashedException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_FileException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_FileNotFoundException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_AccessDeniedException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_FileExistsException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_DiskFullException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_IsDirectoryException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_NotDirectoryException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_DirectoryNotEmptyException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Fermata_Exception_ProtocolException_methods[] = {
	ZEND_ME(Fermata_Exception_ProtocolException, closeCode, arginfo_class_Fermata_Exception_ProtocolException_closeCode, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};

static zend_class_entry *register_class_Fermata_Server(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Server", class_Fermata_Server_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;


	zend_add_parameter_attribute(zend_hash_str_find_ptr(&class_entry->function_table, "__construct", sizeof("__construct") - 1), 10, ZSTR_KNOWN(ZEND_STR_SENSITIVEPARAMETER), 0);

	zend_add_parameter_attribute(zend_hash_str_find_ptr(&class_entry->function_table, "__construct", sizeof("__construct") - 1), 12, ZSTR_KNOWN(ZEND_STR_SENSITIVEPARAMETER), 0);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Pusher(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Pusher", class_Fermata_Pusher_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zval property_appId_default_value;
	ZVAL_UNDEF(&property_appId_default_value);
	zend_string *property_appId_name = zend_string_init("appId", sizeof("appId") - 1, 1);
	zend_declare_typed_property(class_entry, property_appId_name, &property_appId_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_appId_name);

	zval property_key_default_value;
	ZVAL_UNDEF(&property_key_default_value);
	zend_string *property_key_name = zend_string_init("key", sizeof("key") - 1, 1);
	zend_declare_typed_property(class_entry, property_key_name, &property_key_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_key_name);


	zend_add_parameter_attribute(zend_hash_str_find_ptr(&class_entry->function_table, "__construct", sizeof("__construct") - 1), 2, ZSTR_KNOWN(ZEND_STR_SENSITIVEPARAMETER), 0);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Mercure(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Mercure", class_Fermata_Mercure_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;


	zend_add_parameter_attribute(zend_hash_str_find_ptr(&class_entry->function_table, "__construct", sizeof("__construct") - 1), 0, ZSTR_KNOWN(ZEND_STR_SENSITIVEPARAMETER), 0);

	zend_add_parameter_attribute(zend_hash_str_find_ptr(&class_entry->function_table, "__construct", sizeof("__construct") - 1), 3, ZSTR_KNOWN(ZEND_STR_SENSITIVEPARAMETER), 0);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Jobs(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Jobs", class_Fermata_Jobs_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Worker(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Worker", class_Fermata_Worker_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Poll(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Poll", class_Fermata_Poll_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Routes(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Routes", class_Fermata_Routes_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Next(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Next", class_Fermata_Next_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Limits(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Limits", class_Fermata_Limits_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zval property_connections_default_value;
	ZVAL_UNDEF(&property_connections_default_value);
	zend_string *property_connections_name = zend_string_init("connections", sizeof("connections") - 1, 1);
	zend_declare_typed_property(class_entry, property_connections_name, &property_connections_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_connections_name);

	zval property_connectionsPerAddress_default_value;
	ZVAL_UNDEF(&property_connectionsPerAddress_default_value);
	zend_string *property_connectionsPerAddress_name = zend_string_init("connectionsPerAddress", sizeof("connectionsPerAddress") - 1, 1);
	zend_declare_typed_property(class_entry, property_connectionsPerAddress_name, &property_connectionsPerAddress_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_connectionsPerAddress_name);

	zval property_headerBytes_default_value;
	ZVAL_UNDEF(&property_headerBytes_default_value);
	zend_string *property_headerBytes_name = zend_string_init("headerBytes", sizeof("headerBytes") - 1, 1);
	zend_declare_typed_property(class_entry, property_headerBytes_name, &property_headerBytes_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_headerBytes_name);

	zval property_bodyBytes_default_value;
	ZVAL_UNDEF(&property_bodyBytes_default_value);
	zend_string *property_bodyBytes_name = zend_string_init("bodyBytes", sizeof("bodyBytes") - 1, 1);
	zend_declare_typed_property(class_entry, property_bodyBytes_name, &property_bodyBytes_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_bodyBytes_name);

	zval property_queueBytes_default_value;
	ZVAL_UNDEF(&property_queueBytes_default_value);
	zend_string *property_queueBytes_name = zend_string_init("queueBytes", sizeof("queueBytes") - 1, 1);
	zend_declare_typed_property(class_entry, property_queueBytes_name, &property_queueBytes_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_queueBytes_name);

	zval property_eventBytes_default_value;
	ZVAL_UNDEF(&property_eventBytes_default_value);
	zend_string *property_eventBytes_name = zend_string_init("eventBytes", sizeof("eventBytes") - 1, 1);
	zend_declare_typed_property(class_entry, property_eventBytes_name, &property_eventBytes_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_eventBytes_name);

	zval property_headerTimeoutMs_default_value;
	ZVAL_UNDEF(&property_headerTimeoutMs_default_value);
	zend_string *property_headerTimeoutMs_name = zend_string_init("headerTimeoutMs", sizeof("headerTimeoutMs") - 1, 1);
	zend_declare_typed_property(class_entry, property_headerTimeoutMs_name, &property_headerTimeoutMs_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_headerTimeoutMs_name);

	zval property_bodyTimeoutMs_default_value;
	ZVAL_UNDEF(&property_bodyTimeoutMs_default_value);
	zend_string *property_bodyTimeoutMs_name = zend_string_init("bodyTimeoutMs", sizeof("bodyTimeoutMs") - 1, 1);
	zend_declare_typed_property(class_entry, property_bodyTimeoutMs_name, &property_bodyTimeoutMs_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_bodyTimeoutMs_name);

	zval property_idleTimeoutMs_default_value;
	ZVAL_UNDEF(&property_idleTimeoutMs_default_value);
	zend_string *property_idleTimeoutMs_name = zend_string_init("idleTimeoutMs", sizeof("idleTimeoutMs") - 1, 1);
	zend_declare_typed_property(class_entry, property_idleTimeoutMs_name, &property_idleTimeoutMs_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_idleTimeoutMs_name);

	zval property_writeTimeoutMs_default_value;
	ZVAL_UNDEF(&property_writeTimeoutMs_default_value);
	zend_string *property_writeTimeoutMs_name = zend_string_init("writeTimeoutMs", sizeof("writeTimeoutMs") - 1, 1);
	zend_declare_typed_property(class_entry, property_writeTimeoutMs_name, &property_writeTimeoutMs_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_writeTimeoutMs_name);

	zval property_drainTimeoutMs_default_value;
	ZVAL_UNDEF(&property_drainTimeoutMs_default_value);
	zend_string *property_drainTimeoutMs_name = zend_string_init("drainTimeoutMs", sizeof("drainTimeoutMs") - 1, 1);
	zend_declare_typed_property(class_entry, property_drainTimeoutMs_name, &property_drainTimeoutMs_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_drainTimeoutMs_name);

	zval property_handlers_default_value;
	ZVAL_UNDEF(&property_handlers_default_value);
	zend_string *property_handlers_name = zend_string_init("handlers", sizeof("handlers") - 1, 1);
	zend_declare_typed_property(class_entry, property_handlers_name, &property_handlers_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_handlers_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_History(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "History", class_Fermata_History_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zval property_count_default_value;
	ZVAL_UNDEF(&property_count_default_value);
	zend_string *property_count_name = zend_string_init("count", sizeof("count") - 1, 1);
	zend_declare_typed_property(class_entry, property_count_name, &property_count_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_count_name);

	zval property_ageMs_default_value;
	ZVAL_UNDEF(&property_ageMs_default_value);
	zend_string *property_ageMs_name = zend_string_init("ageMs", sizeof("ageMs") - 1, 1);
	zend_declare_typed_property(class_entry, property_ageMs_name, &property_ageMs_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_ageMs_name);

	zval property_bytes_default_value;
	ZVAL_UNDEF(&property_bytes_default_value);
	zend_string *property_bytes_name = zend_string_init("bytes", sizeof("bytes") - 1, 1);
	zend_declare_typed_property(class_entry, property_bytes_name, &property_bytes_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_bytes_name);

	zval property_path_default_value;
	ZVAL_UNDEF(&property_path_default_value);
	zend_string *property_path_name = zend_string_init("path", sizeof("path") - 1, 1);
	zend_declare_typed_property(class_entry, property_path_name, &property_path_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING|MAY_BE_NULL));
	zend_string_release(property_path_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Log(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Log", class_Fermata_Log_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zend_string *property_format_class_Fermata_LogFormat = zend_string_init("Fermata\\LogFormat", sizeof("Fermata\\LogFormat")-1, 1);
	zval property_format_default_value;
	ZVAL_UNDEF(&property_format_default_value);
	zend_string *property_format_name = zend_string_init("format", sizeof("format") - 1, 1);
	zend_declare_typed_property(class_entry, property_format_name, &property_format_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_CLASS(property_format_class_Fermata_LogFormat, 0, MAY_BE_NULL));
	zend_string_release(property_format_name);

	zend_string *property_level_class_Fermata_LogLevel = zend_string_init("Fermata\\LogLevel", sizeof("Fermata\\LogLevel")-1, 1);
	zval property_level_default_value;
	ZVAL_UNDEF(&property_level_default_value);
	zend_string *property_level_name = zend_string_init("level", sizeof("level") - 1, 1);
	zend_declare_typed_property(class_entry, property_level_name, &property_level_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_CLASS(property_level_class_Fermata_LogLevel, 0, MAY_BE_NULL));
	zend_string_release(property_level_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_AccessLog(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "AccessLog", class_Fermata_AccessLog_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zval property_path_default_value;
	ZVAL_UNDEF(&property_path_default_value);
	zend_string *property_path_name = zend_string_init("path", sizeof("path") - 1, 1);
	zend_declare_typed_property(class_entry, property_path_name, &property_path_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_path_name);

	zend_string *property_format_class_Fermata_AccessLogFormat = zend_string_init("Fermata\\AccessLogFormat", sizeof("Fermata\\AccessLogFormat")-1, 1);
	zval property_format_default_value;
	ZVAL_UNDEF(&property_format_default_value);
	zend_string *property_format_name = zend_string_init("format", sizeof("format") - 1, 1);
	zend_declare_typed_property(class_entry, property_format_name, &property_format_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_CLASS(property_format_class_Fermata_AccessLogFormat, 0, MAY_BE_NULL));
	zend_string_release(property_format_name);

	zval property_query_default_value;
	ZVAL_UNDEF(&property_query_default_value);
	zend_string *property_query_name = zend_string_init("query", sizeof("query") - 1, 1);
	zend_declare_typed_property(class_entry, property_query_name, &property_query_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_BOOL|MAY_BE_NULL));
	zend_string_release(property_query_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Tls(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Tls", class_Fermata_Tls_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE|ZEND_ACC_READONLY_CLASS;

	zval property_certificate_default_value;
	ZVAL_UNDEF(&property_certificate_default_value);
	zend_string *property_certificate_name = zend_string_init("certificate", sizeof("certificate") - 1, 1);
	zend_declare_typed_property(class_entry, property_certificate_name, &property_certificate_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING|MAY_BE_ARRAY|MAY_BE_NULL));
	zend_string_release(property_certificate_name);

	zval property_key_default_value;
	ZVAL_UNDEF(&property_key_default_value);
	zend_string *property_key_name = zend_string_init("key", sizeof("key") - 1, 1);
	zend_declare_typed_property(class_entry, property_key_name, &property_key_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING|MAY_BE_ARRAY|MAY_BE_NULL));
	zend_string_release(property_key_name);

	zval property_clientCa_default_value;
	ZVAL_UNDEF(&property_clientCa_default_value);
	zend_string *property_clientCa_name = zend_string_init("clientCa", sizeof("clientCa") - 1, 1);
	zend_declare_typed_property(class_entry, property_clientCa_name, &property_clientCa_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING|MAY_BE_NULL));
	zend_string_release(property_clientCa_name);

	zval property_clientRequired_default_value;
	ZVAL_UNDEF(&property_clientRequired_default_value);
	zend_string *property_clientRequired_name = zend_string_init("clientRequired", sizeof("clientRequired") - 1, 1);
	zend_declare_typed_property(class_entry, property_clientRequired_name, &property_clientRequired_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_BOOL|MAY_BE_NULL));
	zend_string_release(property_clientRequired_name);

	zend_string *property_minVersion_class_Fermata_TlsVersion = zend_string_init("Fermata\\TlsVersion", sizeof("Fermata\\TlsVersion")-1, 1);
	zval property_minVersion_default_value;
	ZVAL_UNDEF(&property_minVersion_default_value);
	zend_string *property_minVersion_name = zend_string_init("minVersion", sizeof("minVersion") - 1, 1);
	zend_declare_typed_property(class_entry, property_minVersion_name, &property_minVersion_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_CLASS(property_minVersion_class_Fermata_TlsVersion, 0, MAY_BE_NULL));
	zend_string_release(property_minVersion_name);

	zval property_development_default_value;
	ZVAL_UNDEF(&property_development_default_value);
	zend_string *property_development_name = zend_string_init("development", sizeof("development") - 1, 1);
	zend_declare_typed_property(class_entry, property_development_name, &property_development_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_BOOL|MAY_BE_NULL));
	zend_string_release(property_development_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_TlsVersion(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\TlsVersion", IS_STRING, class_Fermata_TlsVersion_methods);

	zval enum_case_Tls12_value;
	zend_string *enum_case_Tls12_value_str = zend_string_init("1.2", strlen("1.2"), 1);
	ZVAL_STR(&enum_case_Tls12_value, enum_case_Tls12_value_str);
	zend_enum_add_case_cstr(class_entry, "Tls12", &enum_case_Tls12_value);

	zval enum_case_Tls13_value;
	zend_string *enum_case_Tls13_value_str = zend_string_init("1.3", strlen("1.3"), 1);
	ZVAL_STR(&enum_case_Tls13_value, enum_case_Tls13_value_str);
	zend_enum_add_case_cstr(class_entry, "Tls13", &enum_case_Tls13_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_ClientCertificate(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "ClientCertificate", class_Fermata_ClientCertificate_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE|ZEND_ACC_READONLY_CLASS;

	zval property_subject_default_value;
	ZVAL_UNDEF(&property_subject_default_value);
	zend_string *property_subject_name = zend_string_init("subject", sizeof("subject") - 1, 1);
	zend_declare_typed_property(class_entry, property_subject_name, &property_subject_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_subject_name);

	zval property_pem_default_value;
	ZVAL_UNDEF(&property_pem_default_value);
	zend_string *property_pem_name = zend_string_init("pem", sizeof("pem") - 1, 1);
	zend_declare_typed_property(class_entry, property_pem_name, &property_pem_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_pem_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Trace(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Trace", class_Fermata_Trace_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE|ZEND_ACC_READONLY_CLASS;

	zval property_traceId_default_value;
	ZVAL_UNDEF(&property_traceId_default_value);
	zend_string *property_traceId_name = zend_string_init("traceId", sizeof("traceId") - 1, 1);
	zend_declare_typed_property(class_entry, property_traceId_name, &property_traceId_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_traceId_name);

	zval property_parentId_default_value;
	ZVAL_UNDEF(&property_parentId_default_value);
	zend_string *property_parentId_name = zend_string_init("parentId", sizeof("parentId") - 1, 1);
	zend_declare_typed_property(class_entry, property_parentId_name, &property_parentId_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_parentId_name);

	zval property_isSampled_default_value;
	ZVAL_UNDEF(&property_isSampled_default_value);
	zend_string *property_isSampled_name = zend_string_init("isSampled", sizeof("isSampled") - 1, 1);
	zend_declare_typed_property(class_entry, property_isSampled_name, &property_isSampled_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_BOOL));
	zend_string_release(property_isSampled_name);

	zval property_state_default_value;
	ZVAL_UNDEF(&property_state_default_value);
	zend_string *property_state_name = zend_string_init("state", sizeof("state") - 1, 1);
	zend_declare_typed_property(class_entry, property_state_name, &property_state_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_state_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_LogFormat(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\LogFormat", IS_STRING, class_Fermata_LogFormat_methods);

	zval enum_case_Text_value;
	zend_string *enum_case_Text_value_str = zend_string_init("text", strlen("text"), 1);
	ZVAL_STR(&enum_case_Text_value, enum_case_Text_value_str);
	zend_enum_add_case_cstr(class_entry, "Text", &enum_case_Text_value);

	zval enum_case_Json_value;
	zend_string *enum_case_Json_value_str = zend_string_init("json", strlen("json"), 1);
	ZVAL_STR(&enum_case_Json_value, enum_case_Json_value_str);
	zend_enum_add_case_cstr(class_entry, "Json", &enum_case_Json_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_AccessLogFormat(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\AccessLogFormat", IS_STRING, class_Fermata_AccessLogFormat_methods);

	zval enum_case_Common_value;
	zend_string *enum_case_Common_value_str = zend_string_init("common", strlen("common"), 1);
	ZVAL_STR(&enum_case_Common_value, enum_case_Common_value_str);
	zend_enum_add_case_cstr(class_entry, "Common", &enum_case_Common_value);

	zval enum_case_Combined_value;
	zend_string *enum_case_Combined_value_str = zend_string_init("combined", strlen("combined"), 1);
	ZVAL_STR(&enum_case_Combined_value, enum_case_Combined_value_str);
	zend_enum_add_case_cstr(class_entry, "Combined", &enum_case_Combined_value);

	zval enum_case_Json_value;
	zend_string *enum_case_Json_value_str = zend_string_init("json", strlen("json"), 1);
	ZVAL_STR(&enum_case_Json_value, enum_case_Json_value_str);
	zend_enum_add_case_cstr(class_entry, "Json", &enum_case_Json_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_LogLevel(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\LogLevel", IS_STRING, class_Fermata_LogLevel_methods);

	zval enum_case_Error_value;
	zend_string *enum_case_Error_value_str = zend_string_init("error", strlen("error"), 1);
	ZVAL_STR(&enum_case_Error_value, enum_case_Error_value_str);
	zend_enum_add_case_cstr(class_entry, "Error", &enum_case_Error_value);

	zval enum_case_Warning_value;
	zend_string *enum_case_Warning_value_str = zend_string_init("warning", strlen("warning"), 1);
	ZVAL_STR(&enum_case_Warning_value, enum_case_Warning_value_str);
	zend_enum_add_case_cstr(class_entry, "Warning", &enum_case_Warning_value);

	zval enum_case_Info_value;
	zend_string *enum_case_Info_value_str = zend_string_init("info", strlen("info"), 1);
	ZVAL_STR(&enum_case_Info_value, enum_case_Info_value_str);
	zend_enum_add_case_cstr(class_entry, "Info", &enum_case_Info_value);

	zval enum_case_Debug_value;
	zend_string *enum_case_Debug_value_str = zend_string_init("debug", strlen("debug"), 1);
	ZVAL_STR(&enum_case_Debug_value, enum_case_Debug_value_str);
	zend_enum_add_case_cstr(class_entry, "Debug", &enum_case_Debug_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_SlowPolicy(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\SlowPolicy", IS_STRING, class_Fermata_SlowPolicy_methods);

	zval enum_case_Gap_value;
	zend_string *enum_case_Gap_value_str = zend_string_init("gap", strlen("gap"), 1);
	ZVAL_STR(&enum_case_Gap_value, enum_case_Gap_value_str);
	zend_enum_add_case_cstr(class_entry, "Gap", &enum_case_Gap_value);

	zval enum_case_Close_value;
	zend_string *enum_case_Close_value_str = zend_string_init("close", strlen("close"), 1);
	ZVAL_STR(&enum_case_Close_value, enum_case_Close_value_str);
	zend_enum_add_case_cstr(class_entry, "Close", &enum_case_Close_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Ack(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\Ack", IS_STRING, class_Fermata_Ack_methods);

	zval enum_case_Cluster_value;
	zend_string *enum_case_Cluster_value_str = zend_string_init("cluster", strlen("cluster"), 1);
	ZVAL_STR(&enum_case_Cluster_value, enum_case_Cluster_value_str);
	zend_enum_add_case_cstr(class_entry, "Cluster", &enum_case_Cluster_value);

	zval enum_case_Local_value;
	zend_string *enum_case_Local_value_str = zend_string_init("local", strlen("local"), 1);
	ZVAL_STR(&enum_case_Local_value, enum_case_Local_value_str);
	zend_enum_add_case_cstr(class_entry, "Local", &enum_case_Local_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_SameSite(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\SameSite", IS_STRING, class_Fermata_SameSite_methods);

	zval enum_case_Strict_value;
	zend_string *enum_case_Strict_value_str = zend_string_init("Strict", strlen("Strict"), 1);
	ZVAL_STR(&enum_case_Strict_value, enum_case_Strict_value_str);
	zend_enum_add_case_cstr(class_entry, "Strict", &enum_case_Strict_value);

	zval enum_case_Lax_value;
	zend_string *enum_case_Lax_value_str = zend_string_init("Lax", strlen("Lax"), 1);
	ZVAL_STR(&enum_case_Lax_value, enum_case_Lax_value_str);
	zend_enum_add_case_cstr(class_entry, "Lax", &enum_case_Lax_value);

	zval enum_case_None_value;
	zend_string *enum_case_None_value_str = zend_string_init("None", strlen("None"), 1);
	ZVAL_STR(&enum_case_None_value, enum_case_None_value_str);
	zend_enum_add_case_cstr(class_entry, "None", &enum_case_None_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Request(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Request", class_Fermata_Request_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_UploadedFile(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "UploadedFile", class_Fermata_UploadedFile_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zval property_name_default_value;
	ZVAL_UNDEF(&property_name_default_value);
	zend_string *property_name_name = zend_string_init("name", sizeof("name") - 1, 1);
	zend_declare_typed_property(class_entry, property_name_name, &property_name_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_name_name);

	zval property_type_default_value;
	ZVAL_UNDEF(&property_type_default_value);
	zend_string *property_type_name = zend_string_init("type", sizeof("type") - 1, 1);
	zend_declare_typed_property(class_entry, property_type_name, &property_type_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_type_name);

	zval property_size_default_value;
	ZVAL_UNDEF(&property_size_default_value);
	zend_string *property_size_name = zend_string_init("size", sizeof("size") - 1, 1);
	zend_declare_typed_property(class_entry, property_size_name, &property_size_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_size_name);

	zval property_path_default_value;
	ZVAL_UNDEF(&property_path_default_value);
	zend_string *property_path_name = zend_string_init("path", sizeof("path") - 1, 1);
	zend_declare_typed_property(class_entry, property_path_name, &property_path_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_path_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Response(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Response", class_Fermata_Response_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_EventSink(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "EventSink", class_Fermata_EventSink_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zval property_lastEventId_default_value;
	ZVAL_UNDEF(&property_lastEventId_default_value);
	zend_string *property_lastEventId_name = zend_string_init("lastEventId", sizeof("lastEventId") - 1, 1);
	zend_declare_typed_property(class_entry, property_lastEventId_name, &property_lastEventId_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING|MAY_BE_NULL));
	zend_string_release(property_lastEventId_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Hold(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Hold", class_Fermata_Hold_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Event(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Event", class_Fermata_Event_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zval property_data_default_value;
	ZVAL_UNDEF(&property_data_default_value);
	zend_string *property_data_name = zend_string_init("data", sizeof("data") - 1, 1);
	zend_declare_typed_property(class_entry, property_data_name, &property_data_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_data_name);

	zval property_name_default_value;
	ZVAL_UNDEF(&property_name_default_value);
	zend_string *property_name_name = zend_string_init("name", sizeof("name") - 1, 1);
	zend_declare_typed_property(class_entry, property_name_name, &property_name_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING|MAY_BE_NULL));
	zend_string_release(property_name_name);

	zval property_id_default_value;
	ZVAL_UNDEF(&property_id_default_value);
	zend_string *property_id_name = zend_string_init("id", sizeof("id") - 1, 1);
	zend_declare_typed_property(class_entry, property_id_name, &property_id_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING|MAY_BE_NULL));
	zend_string_release(property_id_name);

	zval property_timeMs_default_value;
	ZVAL_UNDEF(&property_timeMs_default_value);
	zend_string *property_timeMs_name = zend_string_init("timeMs", sizeof("timeMs") - 1, 1);
	zend_declare_typed_property(class_entry, property_timeMs_name, &property_timeMs_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_timeMs_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Channel(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Channel", class_Fermata_Channel_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zval property_name_default_value;
	ZVAL_UNDEF(&property_name_default_value);
	zend_string *property_name_name = zend_string_init("name", sizeof("name") - 1, 1);
	zend_declare_typed_property(class_entry, property_name_name, &property_name_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_name_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_ChannelReader(zend_class_entry *class_entry_IteratorAggregate)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "ChannelReader", class_Fermata_ChannelReader_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;
	zend_class_implements(class_entry, 1, class_entry_IteratorAggregate);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Member(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Member", class_Fermata_Member_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zval property_user_default_value;
	ZVAL_UNDEF(&property_user_default_value);
	zend_string *property_user_name = zend_string_init("user", sizeof("user") - 1, 1);
	zend_declare_typed_property(class_entry, property_user_name, &property_user_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_user_name);

	zval property_info_default_value;
	ZVAL_UNDEF(&property_info_default_value);
	zend_string *property_info_name = zend_string_init("info", sizeof("info") - 1, 1);
	zend_declare_typed_property(class_entry, property_info_name, &property_info_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_ARRAY|MAY_BE_NULL));
	zend_string_release(property_info_name);

	zval property_connections_default_value;
	ZVAL_UNDEF(&property_connections_default_value);
	zend_string *property_connections_name = zend_string_init("connections", sizeof("connections") - 1, 1);
	zend_declare_typed_property(class_entry, property_connections_name, &property_connections_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_connections_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Publisher(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Publisher", class_Fermata_Publisher_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_WebSocketHandler(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "WebSocketHandler", class_Fermata_WebSocketHandler_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_ABSTRACT|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_WebSocket(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "WebSocket", class_Fermata_WebSocket_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Future(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Future", class_Fermata_Future_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Cancellation(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Cancellation", class_Fermata_Cancellation_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Hook(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\Hook", IS_UNDEF, class_Fermata_Hook_methods);

	zend_enum_add_case_cstr(class_entry, "Sleep", NULL);

	zend_enum_add_case_cstr(class_entry, "Streams", NULL);

	zend_enum_add_case_cstr(class_entry, "StreamSelect", NULL);

	zend_enum_add_case_cstr(class_entry, "Sockets", NULL);

	zend_enum_add_case_cstr(class_entry, "Dns", NULL);

	zend_enum_add_case_cstr(class_entry, "Processes", NULL);

	zend_enum_add_case_cstr(class_entry, "Files", NULL);

	zend_enum_add_case_cstr(class_entry, "Curl", NULL);

	zend_enum_add_case_cstr(class_entry, "PostgreSql", NULL);

	zend_enum_add_case_cstr(class_entry, "Sqlite", NULL);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Runtime(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Runtime", class_Fermata_Runtime_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Table(zend_class_entry *class_entry_Countable, zend_class_entry *class_entry_IteratorAggregate)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Table", class_Fermata_Table_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;
	zend_class_implements(class_entry, 2, class_entry_Countable, class_entry_IteratorAggregate);

	zval property_rows_default_value;
	ZVAL_UNDEF(&property_rows_default_value);
	zend_string *property_rows_name = zend_string_init("rows", sizeof("rows") - 1, 1);
	zend_declare_typed_property(class_entry, property_rows_name, &property_rows_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_rows_name);

	zval property_columns_default_value;
	ZVAL_UNDEF(&property_columns_default_value);
	zend_string *property_columns_name = zend_string_init("columns", sizeof("columns") - 1, 1);
	zend_declare_typed_property(class_entry, property_columns_name, &property_columns_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_ARRAY));
	zend_string_release(property_columns_name);

	zval property_keyBytes_default_value;
	ZVAL_UNDEF(&property_keyBytes_default_value);
	zend_string *property_keyBytes_name = zend_string_init("keyBytes", sizeof("keyBytes") - 1, 1);
	zend_declare_typed_property(class_entry, property_keyBytes_name, &property_keyBytes_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_keyBytes_name);

	zval property_bytes_default_value;
	ZVAL_UNDEF(&property_bytes_default_value);
	zend_string *property_bytes_name = zend_string_init("bytes", sizeof("bytes") - 1, 1);
	zend_declare_typed_property(class_entry, property_bytes_name, &property_bytes_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_bytes_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Pool(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Pool", class_Fermata_Pool_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Context(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "Context", class_Fermata_Context_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_File(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata", "File", class_Fermata_File_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zval property_path_default_value;
	ZVAL_UNDEF(&property_path_default_value);
	zend_string *property_path_name = zend_string_init("path", sizeof("path") - 1, 1);
	zend_declare_typed_property(class_entry, property_path_name, &property_path_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_path_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_File_WriteMode(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\File\\WriteMode", IS_LONG, class_Fermata_File_WriteMode_methods);

	zval enum_case_Replace_value;
	ZVAL_LONG(&enum_case_Replace_value, 0);
	zend_enum_add_case_cstr(class_entry, "Replace", &enum_case_Replace_value);

	zval enum_case_Atomic_value;
	ZVAL_LONG(&enum_case_Atomic_value, 1);
	zend_enum_add_case_cstr(class_entry, "Atomic", &enum_case_Atomic_value);

	zval enum_case_Append_value;
	ZVAL_LONG(&enum_case_Append_value, 2);
	zend_enum_add_case_cstr(class_entry, "Append", &enum_case_Append_value);

	zval enum_case_New_value;
	ZVAL_LONG(&enum_case_New_value, 3);
	zend_enum_add_case_cstr(class_entry, "New", &enum_case_New_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_File_OpenMode(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\File\\OpenMode", IS_LONG, class_Fermata_File_OpenMode_methods);

	zval enum_case_Read_value;
	ZVAL_LONG(&enum_case_Read_value, 0);
	zend_enum_add_case_cstr(class_entry, "Read", &enum_case_Read_value);

	zval enum_case_Update_value;
	ZVAL_LONG(&enum_case_Update_value, 1);
	zend_enum_add_case_cstr(class_entry, "Update", &enum_case_Update_value);

	zval enum_case_Replace_value;
	ZVAL_LONG(&enum_case_Replace_value, 2);
	zend_enum_add_case_cstr(class_entry, "Replace", &enum_case_Replace_value);

	zval enum_case_Append_value;
	ZVAL_LONG(&enum_case_Append_value, 3);
	zend_enum_add_case_cstr(class_entry, "Append", &enum_case_Append_value);

	zval enum_case_New_value;
	ZVAL_LONG(&enum_case_New_value, 4);
	zend_enum_add_case_cstr(class_entry, "New", &enum_case_New_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_File_Type(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\File\\Type", IS_LONG, class_Fermata_File_Type_methods);

	zval enum_case_File_value;
	ZVAL_LONG(&enum_case_File_value, 0);
	zend_enum_add_case_cstr(class_entry, "File", &enum_case_File_value);

	zval enum_case_Directory_value;
	ZVAL_LONG(&enum_case_Directory_value, 1);
	zend_enum_add_case_cstr(class_entry, "Directory", &enum_case_Directory_value);

	zval enum_case_Link_value;
	ZVAL_LONG(&enum_case_Link_value, 2);
	zend_enum_add_case_cstr(class_entry, "Link", &enum_case_Link_value);

	zval enum_case_Other_value;
	ZVAL_LONG(&enum_case_Other_value, 3);
	zend_enum_add_case_cstr(class_entry, "Other", &enum_case_Other_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_File_Stat(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\File", "Stat", class_Fermata_File_Stat_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zend_string *property_type_class_Fermata_File_Type = zend_string_init("Fermata\\File\\Type", sizeof("Fermata\\File\\Type")-1, 1);
	zval property_type_default_value;
	ZVAL_UNDEF(&property_type_default_value);
	zend_string *property_type_name = zend_string_init("type", sizeof("type") - 1, 1);
	zend_declare_typed_property(class_entry, property_type_name, &property_type_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_CLASS(property_type_class_Fermata_File_Type, 0, 0));
	zend_string_release(property_type_name);

	zval property_size_default_value;
	ZVAL_UNDEF(&property_size_default_value);
	zend_string *property_size_name = zend_string_init("size", sizeof("size") - 1, 1);
	zend_declare_typed_property(class_entry, property_size_name, &property_size_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_size_name);

	zval property_permissions_default_value;
	ZVAL_UNDEF(&property_permissions_default_value);
	zend_string *property_permissions_name = zend_string_init("permissions", sizeof("permissions") - 1, 1);
	zend_declare_typed_property(class_entry, property_permissions_name, &property_permissions_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_permissions_name);

	zval property_owner_default_value;
	ZVAL_UNDEF(&property_owner_default_value);
	zend_string *property_owner_name = zend_string_init("owner", sizeof("owner") - 1, 1);
	zend_declare_typed_property(class_entry, property_owner_name, &property_owner_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_owner_name);

	zval property_group_default_value;
	ZVAL_UNDEF(&property_group_default_value);
	zend_string *property_group_name = zend_string_init("group", sizeof("group") - 1, 1);
	zend_declare_typed_property(class_entry, property_group_name, &property_group_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_group_name);

	zval property_inode_default_value;
	ZVAL_UNDEF(&property_inode_default_value);
	zend_string *property_inode_name = zend_string_init("inode", sizeof("inode") - 1, 1);
	zend_declare_typed_property(class_entry, property_inode_name, &property_inode_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_inode_name);

	zval property_device_default_value;
	ZVAL_UNDEF(&property_device_default_value);
	zend_string *property_device_name = zend_string_init("device", sizeof("device") - 1, 1);
	zend_declare_typed_property(class_entry, property_device_name, &property_device_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_device_name);

	zval property_links_default_value;
	ZVAL_UNDEF(&property_links_default_value);
	zend_string *property_links_name = zend_string_init("links", sizeof("links") - 1, 1);
	zend_declare_typed_property(class_entry, property_links_name, &property_links_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_links_name);

	zval property_modifiedAt_default_value;
	ZVAL_UNDEF(&property_modifiedAt_default_value);
	zend_string *property_modifiedAt_name = zend_string_init("modifiedAt", sizeof("modifiedAt") - 1, 1);
	zend_declare_typed_property(class_entry, property_modifiedAt_name, &property_modifiedAt_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_DOUBLE));
	zend_string_release(property_modifiedAt_name);

	zval property_accessedAt_default_value;
	ZVAL_UNDEF(&property_accessedAt_default_value);
	zend_string *property_accessedAt_name = zend_string_init("accessedAt", sizeof("accessedAt") - 1, 1);
	zend_declare_typed_property(class_entry, property_accessedAt_name, &property_accessedAt_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_DOUBLE));
	zend_string_release(property_accessedAt_name);

	zval property_changedAt_default_value;
	ZVAL_UNDEF(&property_changedAt_default_value);
	zend_string *property_changedAt_name = zend_string_init("changedAt", sizeof("changedAt") - 1, 1);
	zend_declare_typed_property(class_entry, property_changedAt_name, &property_changedAt_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_DOUBLE));
	zend_string_release(property_changedAt_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_File_Pieces(zend_class_entry *class_entry_Iterator)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\File", "Pieces", class_Fermata_File_Pieces_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;
	zend_class_implements(class_entry, 1, class_entry_Iterator);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Sync_Mutex(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Sync", "Mutex", class_Fermata_Sync_Mutex_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Sync_Semaphore(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Sync", "Semaphore", class_Fermata_Sync_Semaphore_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Sync_Queue(zend_class_entry *class_entry_Countable, zend_class_entry *class_entry_IteratorAggregate)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Sync", "Queue", class_Fermata_Sync_Queue_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;
	zend_class_implements(class_entry, 2, class_entry_Countable, class_entry_IteratorAggregate);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Table_Type(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\Table\\Type", IS_STRING, class_Fermata_Table_Type_methods);

	zval enum_case_Int_value;
	zend_string *enum_case_Int_value_str = zend_string_init("int", strlen("int"), 1);
	ZVAL_STR(&enum_case_Int_value, enum_case_Int_value_str);
	zend_enum_add_case_cstr(class_entry, "Int", &enum_case_Int_value);

	zval enum_case_Float_value;
	zend_string *enum_case_Float_value_str = zend_string_init("float", strlen("float"), 1);
	ZVAL_STR(&enum_case_Float_value, enum_case_Float_value_str);
	zend_enum_add_case_cstr(class_entry, "Float", &enum_case_Float_value);

	zval enum_case_String_value;
	zend_string *enum_case_String_value_str = zend_string_init("string", strlen("string"), 1);
	ZVAL_STR(&enum_case_String_value, enum_case_String_value_str);
	zend_enum_add_case_cstr(class_entry, "String", &enum_case_String_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Table_Column(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Table", "Column", class_Fermata_Table_Column_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE|ZEND_ACC_READONLY_CLASS;

	zval property_name_default_value;
	ZVAL_UNDEF(&property_name_default_value);
	zend_string *property_name_name = zend_string_init("name", sizeof("name") - 1, 1);
	zend_declare_typed_property(class_entry, property_name_name, &property_name_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_name_name);

	zend_string *property_type_class_Fermata_Table_Type = zend_string_init("Fermata\\Table\\Type", sizeof("Fermata\\Table\\Type")-1, 1);
	zval property_type_default_value;
	ZVAL_UNDEF(&property_type_default_value);
	zend_string *property_type_name = zend_string_init("type", sizeof("type") - 1, 1);
	zend_declare_typed_property(class_entry, property_type_name, &property_type_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_CLASS(property_type_class_Fermata_Table_Type, 0, 0));
	zend_string_release(property_type_name);

	zval property_bytes_default_value;
	ZVAL_UNDEF(&property_bytes_default_value);
	zend_string *property_bytes_name = zend_string_init("bytes", sizeof("bytes") - 1, 1);
	zend_declare_typed_property(class_entry, property_bytes_name, &property_bytes_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_bytes_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_WebSocket_Upgrade(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\WebSocket", "Upgrade", class_Fermata_WebSocket_Upgrade_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_WebSocket_Message(zend_class_entry *class_entry_Stringable, zend_class_entry *class_entry_JsonSerializable)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\WebSocket", "Message", class_Fermata_WebSocket_Message_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;
	zend_class_implements(class_entry, 2, class_entry_Stringable, class_entry_JsonSerializable);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_WebSocket_QueuePolicy(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\WebSocket\\QueuePolicy", IS_STRING, class_Fermata_WebSocket_QueuePolicy_methods);

	zval enum_case_Refuse_value;
	zend_string *enum_case_Refuse_value_str = zend_string_init("refuse", strlen("refuse"), 1);
	ZVAL_STR(&enum_case_Refuse_value, enum_case_Refuse_value_str);
	zend_enum_add_case_cstr(class_entry, "Refuse", &enum_case_Refuse_value);

	zval enum_case_DropOldest_value;
	zend_string *enum_case_DropOldest_value_str = zend_string_init("drop-oldest", strlen("drop-oldest"), 1);
	ZVAL_STR(&enum_case_DropOldest_value, enum_case_DropOldest_value_str);
	zend_enum_add_case_cstr(class_entry, "DropOldest", &enum_case_DropOldest_value);

	zval enum_case_Close_value;
	zend_string *enum_case_Close_value_str = zend_string_init("close", strlen("close"), 1);
	ZVAL_STR(&enum_case_Close_value, enum_case_Close_value_str);
	zend_enum_add_case_cstr(class_entry, "Close", &enum_case_Close_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_WebSocket_Format(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\WebSocket\\Format", IS_STRING, class_Fermata_WebSocket_Format_methods);

	zval enum_case_Data_value;
	zend_string *enum_case_Data_value_str = zend_string_init("data", strlen("data"), 1);
	ZVAL_STR(&enum_case_Data_value, enum_case_Data_value_str);
	zend_enum_add_case_cstr(class_entry, "Data", &enum_case_Data_value);

	zval enum_case_Json_value;
	zend_string *enum_case_Json_value_str = zend_string_init("json", strlen("json"), 1);
	ZVAL_STR(&enum_case_Json_value, enum_case_Json_value_str);
	zend_enum_add_case_cstr(class_entry, "Json", &enum_case_Json_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_WebSocket_Options(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\WebSocket", "Options", class_Fermata_WebSocket_Options_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zval property_origins_default_value;
	ZVAL_UNDEF(&property_origins_default_value);
	zend_string *property_origins_name = zend_string_init("origins", sizeof("origins") - 1, 1);
	zend_declare_typed_property(class_entry, property_origins_name, &property_origins_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_ARRAY|MAY_BE_NULL));
	zend_string_release(property_origins_name);

	zval property_protocols_default_value;
	ZVAL_UNDEF(&property_protocols_default_value);
	zend_string *property_protocols_name = zend_string_init("protocols", sizeof("protocols") - 1, 1);
	zend_declare_typed_property(class_entry, property_protocols_name, &property_protocols_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_ARRAY));
	zend_string_release(property_protocols_name);

	zval property_messageBytes_default_value;
	ZVAL_UNDEF(&property_messageBytes_default_value);
	zend_string *property_messageBytes_name = zend_string_init("messageBytes", sizeof("messageBytes") - 1, 1);
	zend_declare_typed_property(class_entry, property_messageBytes_name, &property_messageBytes_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_messageBytes_name);

	zval property_frameBytes_default_value;
	ZVAL_UNDEF(&property_frameBytes_default_value);
	zend_string *property_frameBytes_name = zend_string_init("frameBytes", sizeof("frameBytes") - 1, 1);
	zend_declare_typed_property(class_entry, property_frameBytes_name, &property_frameBytes_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_frameBytes_name);

	zval property_queueBytes_default_value;
	ZVAL_UNDEF(&property_queueBytes_default_value);
	zend_string *property_queueBytes_name = zend_string_init("queueBytes", sizeof("queueBytes") - 1, 1);
	zend_declare_typed_property(class_entry, property_queueBytes_name, &property_queueBytes_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_queueBytes_name);

	zend_string *property_queuePolicy_class_Fermata_WebSocket_QueuePolicy = zend_string_init("Fermata\\WebSocket\\QueuePolicy", sizeof("Fermata\\WebSocket\\QueuePolicy")-1, 1);
	zval property_queuePolicy_default_value;
	ZVAL_UNDEF(&property_queuePolicy_default_value);
	zend_string *property_queuePolicy_name = zend_string_init("queuePolicy", sizeof("queuePolicy") - 1, 1);
	zend_declare_typed_property(class_entry, property_queuePolicy_name, &property_queuePolicy_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_CLASS(property_queuePolicy_class_Fermata_WebSocket_QueuePolicy, 0, 0));
	zend_string_release(property_queuePolicy_name);

	zval property_pingIntervalMs_default_value;
	ZVAL_UNDEF(&property_pingIntervalMs_default_value);
	zend_string *property_pingIntervalMs_name = zend_string_init("pingIntervalMs", sizeof("pingIntervalMs") - 1, 1);
	zend_declare_typed_property(class_entry, property_pingIntervalMs_name, &property_pingIntervalMs_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_pingIntervalMs_name);

	zval property_pongTimeoutMs_default_value;
	ZVAL_UNDEF(&property_pongTimeoutMs_default_value);
	zend_string *property_pongTimeoutMs_name = zend_string_init("pongTimeoutMs", sizeof("pongTimeoutMs") - 1, 1);
	zend_declare_typed_property(class_entry, property_pongTimeoutMs_name, &property_pongTimeoutMs_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_pongTimeoutMs_name);

	zval property_idleTimeoutMs_default_value;
	ZVAL_UNDEF(&property_idleTimeoutMs_default_value);
	zend_string *property_idleTimeoutMs_name = zend_string_init("idleTimeoutMs", sizeof("idleTimeoutMs") - 1, 1);
	zend_declare_typed_property(class_entry, property_idleTimeoutMs_name, &property_idleTimeoutMs_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_idleTimeoutMs_name);

	zend_string *property_compression_class_Fermata_WebSocket_Compression = zend_string_init("Fermata\\WebSocket\\Compression", sizeof("Fermata\\WebSocket\\Compression")-1, 1);
	zval property_compression_default_value;
	ZVAL_UNDEF(&property_compression_default_value);
	zend_string *property_compression_name = zend_string_init("compression", sizeof("compression") - 1, 1);
	zend_declare_typed_property(class_entry, property_compression_name, &property_compression_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_CLASS(property_compression_class_Fermata_WebSocket_Compression, 0, MAY_BE_NULL));
	zend_string_release(property_compression_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_WebSocket_Compression(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\WebSocket", "Compression", class_Fermata_WebSocket_Compression_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zval property_serverContextTakeover_default_value;
	ZVAL_UNDEF(&property_serverContextTakeover_default_value);
	zend_string *property_serverContextTakeover_name = zend_string_init("serverContextTakeover", sizeof("serverContextTakeover") - 1, 1);
	zend_declare_typed_property(class_entry, property_serverContextTakeover_name, &property_serverContextTakeover_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_BOOL));
	zend_string_release(property_serverContextTakeover_name);

	zval property_clientContextTakeover_default_value;
	ZVAL_UNDEF(&property_clientContextTakeover_default_value);
	zend_string *property_clientContextTakeover_name = zend_string_init("clientContextTakeover", sizeof("clientContextTakeover") - 1, 1);
	zend_declare_typed_property(class_entry, property_clientContextTakeover_name, &property_clientContextTakeover_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_BOOL));
	zend_string_release(property_clientContextTakeover_name);

	zval property_windowBits_default_value;
	ZVAL_UNDEF(&property_windowBits_default_value);
	zend_string *property_windowBits_name = zend_string_init("windowBits", sizeof("windowBits") - 1, 1);
	zend_declare_typed_property(class_entry, property_windowBits_name, &property_windowBits_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_windowBits_name);

	zval property_level_default_value;
	ZVAL_UNDEF(&property_level_default_value);
	zend_string *property_level_name = zend_string_init("level", sizeof("level") - 1, 1);
	zend_declare_typed_property(class_entry, property_level_name, &property_level_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_level_name);

	zval property_minBytes_default_value;
	ZVAL_UNDEF(&property_minBytes_default_value);
	zend_string *property_minBytes_name = zend_string_init("minBytes", sizeof("minBytes") - 1, 1);
	zend_declare_typed_property(class_entry, property_minBytes_name, &property_minBytes_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_minBytes_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_WebSocket_Codec(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\WebSocket", "Codec", class_Fermata_WebSocket_Codec_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_WebSocket_Client(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\WebSocket", "Client", class_Fermata_WebSocket_Client_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_WebSocket_Frame(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\WebSocket", "Frame", class_Fermata_WebSocket_Frame_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zend_string *property_opcode_class_Fermata_WebSocket_Opcode = zend_string_init("Fermata\\WebSocket\\Opcode", sizeof("Fermata\\WebSocket\\Opcode")-1, 1);
	zval property_opcode_default_value;
	ZVAL_UNDEF(&property_opcode_default_value);
	zend_string *property_opcode_name = zend_string_init("opcode", sizeof("opcode") - 1, 1);
	zend_declare_typed_property(class_entry, property_opcode_name, &property_opcode_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_CLASS(property_opcode_class_Fermata_WebSocket_Opcode, 0, 0));
	zend_string_release(property_opcode_name);

	zval property_payload_default_value;
	ZVAL_UNDEF(&property_payload_default_value);
	zend_string *property_payload_name = zend_string_init("payload", sizeof("payload") - 1, 1);
	zend_declare_typed_property(class_entry, property_payload_name, &property_payload_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_payload_name);

	zval property_fin_default_value;
	ZVAL_UNDEF(&property_fin_default_value);
	zend_string *property_fin_name = zend_string_init("fin", sizeof("fin") - 1, 1);
	zend_declare_typed_property(class_entry, property_fin_name, &property_fin_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_BOOL));
	zend_string_release(property_fin_name);

	zval property_masked_default_value;
	ZVAL_UNDEF(&property_masked_default_value);
	zend_string *property_masked_name = zend_string_init("masked", sizeof("masked") - 1, 1);
	zend_declare_typed_property(class_entry, property_masked_name, &property_masked_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_BOOL));
	zend_string_release(property_masked_name);

	zval property_rsv1_default_value;
	ZVAL_UNDEF(&property_rsv1_default_value);
	zend_string *property_rsv1_name = zend_string_init("rsv1", sizeof("rsv1") - 1, 1);
	zend_declare_typed_property(class_entry, property_rsv1_name, &property_rsv1_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_BOOL));
	zend_string_release(property_rsv1_name);

	zval property_rsv2_default_value;
	ZVAL_UNDEF(&property_rsv2_default_value);
	zend_string *property_rsv2_name = zend_string_init("rsv2", sizeof("rsv2") - 1, 1);
	zend_declare_typed_property(class_entry, property_rsv2_name, &property_rsv2_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_BOOL));
	zend_string_release(property_rsv2_name);

	zval property_rsv3_default_value;
	ZVAL_UNDEF(&property_rsv3_default_value);
	zend_string *property_rsv3_name = zend_string_init("rsv3", sizeof("rsv3") - 1, 1);
	zend_declare_typed_property(class_entry, property_rsv3_name, &property_rsv3_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_BOOL));
	zend_string_release(property_rsv3_name);

	zval property_bytesConsumed_default_value;
	ZVAL_UNDEF(&property_bytesConsumed_default_value);
	zend_string *property_bytesConsumed_name = zend_string_init("bytesConsumed", sizeof("bytesConsumed") - 1, 1);
	zend_declare_typed_property(class_entry, property_bytesConsumed_name, &property_bytesConsumed_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_bytesConsumed_name);

	zval property_closeCode_default_value;
	ZVAL_UNDEF(&property_closeCode_default_value);
	zend_string *property_closeCode_name = zend_string_init("closeCode", sizeof("closeCode") - 1, 1);
	zend_declare_typed_property(class_entry, property_closeCode_name, &property_closeCode_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG|MAY_BE_NULL));
	zend_string_release(property_closeCode_name);

	zval property_closeReason_default_value;
	ZVAL_UNDEF(&property_closeReason_default_value);
	zend_string *property_closeReason_name = zend_string_init("closeReason", sizeof("closeReason") - 1, 1);
	zend_declare_typed_property(class_entry, property_closeReason_name, &property_closeReason_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING|MAY_BE_NULL));
	zend_string_release(property_closeReason_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_WebSocket_Opcode(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\WebSocket\\Opcode", IS_LONG, class_Fermata_WebSocket_Opcode_methods);

	zval enum_case_Continuation_value;
	ZVAL_LONG(&enum_case_Continuation_value, 0);
	zend_enum_add_case_cstr(class_entry, "Continuation", &enum_case_Continuation_value);

	zval enum_case_Text_value;
	ZVAL_LONG(&enum_case_Text_value, 1);
	zend_enum_add_case_cstr(class_entry, "Text", &enum_case_Text_value);

	zval enum_case_Binary_value;
	ZVAL_LONG(&enum_case_Binary_value, 2);
	zend_enum_add_case_cstr(class_entry, "Binary", &enum_case_Binary_value);

	zval enum_case_Close_value;
	ZVAL_LONG(&enum_case_Close_value, 8);
	zend_enum_add_case_cstr(class_entry, "Close", &enum_case_Close_value);

	zval enum_case_Ping_value;
	ZVAL_LONG(&enum_case_Ping_value, 9);
	zend_enum_add_case_cstr(class_entry, "Ping", &enum_case_Ping_value);

	zval enum_case_Pong_value;
	ZVAL_LONG(&enum_case_Pong_value, 10);
	zend_enum_add_case_cstr(class_entry, "Pong", &enum_case_Pong_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_WebSocket_CloseCode(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\WebSocket\\CloseCode", IS_LONG, class_Fermata_WebSocket_CloseCode_methods);

	zval enum_case_Normal_value;
	ZVAL_LONG(&enum_case_Normal_value, 1000);
	zend_enum_add_case_cstr(class_entry, "Normal", &enum_case_Normal_value);

	zval enum_case_GoingAway_value;
	ZVAL_LONG(&enum_case_GoingAway_value, 1001);
	zend_enum_add_case_cstr(class_entry, "GoingAway", &enum_case_GoingAway_value);

	zval enum_case_ProtocolError_value;
	ZVAL_LONG(&enum_case_ProtocolError_value, 1002);
	zend_enum_add_case_cstr(class_entry, "ProtocolError", &enum_case_ProtocolError_value);

	zval enum_case_Unsupported_value;
	ZVAL_LONG(&enum_case_Unsupported_value, 1003);
	zend_enum_add_case_cstr(class_entry, "Unsupported", &enum_case_Unsupported_value);

	zval enum_case_NoStatus_value;
	ZVAL_LONG(&enum_case_NoStatus_value, 1005);
	zend_enum_add_case_cstr(class_entry, "NoStatus", &enum_case_NoStatus_value);

	zval enum_case_Abnormal_value;
	ZVAL_LONG(&enum_case_Abnormal_value, 1006);
	zend_enum_add_case_cstr(class_entry, "Abnormal", &enum_case_Abnormal_value);

	zval enum_case_InvalidPayload_value;
	ZVAL_LONG(&enum_case_InvalidPayload_value, 1007);
	zend_enum_add_case_cstr(class_entry, "InvalidPayload", &enum_case_InvalidPayload_value);

	zval enum_case_PolicyViolation_value;
	ZVAL_LONG(&enum_case_PolicyViolation_value, 1008);
	zend_enum_add_case_cstr(class_entry, "PolicyViolation", &enum_case_PolicyViolation_value);

	zval enum_case_MessageTooBig_value;
	ZVAL_LONG(&enum_case_MessageTooBig_value, 1009);
	zend_enum_add_case_cstr(class_entry, "MessageTooBig", &enum_case_MessageTooBig_value);

	zval enum_case_ExtensionRequired_value;
	ZVAL_LONG(&enum_case_ExtensionRequired_value, 1010);
	zend_enum_add_case_cstr(class_entry, "ExtensionRequired", &enum_case_ExtensionRequired_value);

	zval enum_case_InternalError_value;
	ZVAL_LONG(&enum_case_InternalError_value, 1011);
	zend_enum_add_case_cstr(class_entry, "InternalError", &enum_case_InternalError_value);

	zval enum_case_ServiceRestart_value;
	ZVAL_LONG(&enum_case_ServiceRestart_value, 1012);
	zend_enum_add_case_cstr(class_entry, "ServiceRestart", &enum_case_ServiceRestart_value);

	zval enum_case_TryAgainLater_value;
	ZVAL_LONG(&enum_case_TryAgainLater_value, 1013);
	zend_enum_add_case_cstr(class_entry, "TryAgainLater", &enum_case_TryAgainLater_value);

	zval enum_case_BadGateway_value;
	ZVAL_LONG(&enum_case_BadGateway_value, 1014);
	zend_enum_add_case_cstr(class_entry, "BadGateway", &enum_case_BadGateway_value);

	zval enum_case_TlsHandshake_value;
	ZVAL_LONG(&enum_case_TlsHandshake_value, 1015);
	zend_enum_add_case_cstr(class_entry, "TlsHandshake", &enum_case_TlsHandshake_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Testing_Engine(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Testing", "Engine", class_Fermata_Testing_Engine_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Pusher_Webhook(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Pusher", "Webhook", class_Fermata_Pusher_Webhook_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	zval property_url_default_value;
	ZVAL_UNDEF(&property_url_default_value);
	zend_string *property_url_name = zend_string_init("url", sizeof("url") - 1, 1);
	zend_declare_typed_property(class_entry, property_url_name, &property_url_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_url_name);

	zval property_events_default_value;
	ZVAL_UNDEF(&property_events_default_value);
	zend_string *property_events_name = zend_string_init("events", sizeof("events") - 1, 1);
	zend_declare_typed_property(class_entry, property_events_name, &property_events_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_ARRAY|MAY_BE_NULL));
	zend_string_release(property_events_name);

	zval property_timeoutMs_default_value;
	ZVAL_UNDEF(&property_timeoutMs_default_value);
	zend_string *property_timeoutMs_name = zend_string_init("timeoutMs", sizeof("timeoutMs") - 1, 1);
	zend_declare_typed_property(class_entry, property_timeoutMs_name, &property_timeoutMs_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_timeoutMs_name);

	zval property_retrySeconds_default_value;
	ZVAL_UNDEF(&property_retrySeconds_default_value);
	zend_string *property_retrySeconds_name = zend_string_init("retrySeconds", sizeof("retrySeconds") - 1, 1);
	zend_declare_typed_property(class_entry, property_retrySeconds_name, &property_retrySeconds_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_retrySeconds_name);

	zval property_queueEventsMax_default_value;
	ZVAL_UNDEF(&property_queueEventsMax_default_value);
	zend_string *property_queueEventsMax_name = zend_string_init("queueEventsMax", sizeof("queueEventsMax") - 1, 1);
	zend_declare_typed_property(class_entry, property_queueEventsMax_name, &property_queueEventsMax_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_queueEventsMax_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Pusher_WebhookEvent(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\Pusher\\WebhookEvent", IS_STRING, class_Fermata_Pusher_WebhookEvent_methods);

	zval enum_case_ChannelOccupied_value;
	zend_string *enum_case_ChannelOccupied_value_str = zend_string_init("channel_occupied", strlen("channel_occupied"), 1);
	ZVAL_STR(&enum_case_ChannelOccupied_value, enum_case_ChannelOccupied_value_str);
	zend_enum_add_case_cstr(class_entry, "ChannelOccupied", &enum_case_ChannelOccupied_value);

	zval enum_case_ChannelVacated_value;
	zend_string *enum_case_ChannelVacated_value_str = zend_string_init("channel_vacated", strlen("channel_vacated"), 1);
	ZVAL_STR(&enum_case_ChannelVacated_value, enum_case_ChannelVacated_value_str);
	zend_enum_add_case_cstr(class_entry, "ChannelVacated", &enum_case_ChannelVacated_value);

	zval enum_case_MemberAdded_value;
	zend_string *enum_case_MemberAdded_value_str = zend_string_init("member_added", strlen("member_added"), 1);
	ZVAL_STR(&enum_case_MemberAdded_value, enum_case_MemberAdded_value_str);
	zend_enum_add_case_cstr(class_entry, "MemberAdded", &enum_case_MemberAdded_value);

	zval enum_case_MemberRemoved_value;
	zend_string *enum_case_MemberRemoved_value_str = zend_string_init("member_removed", strlen("member_removed"), 1);
	ZVAL_STR(&enum_case_MemberRemoved_value, enum_case_MemberRemoved_value_str);
	zend_enum_add_case_cstr(class_entry, "MemberRemoved", &enum_case_MemberRemoved_value);

	zval enum_case_ClientEvent_value;
	zend_string *enum_case_ClientEvent_value_str = zend_string_init("client_event", strlen("client_event"), 1);
	ZVAL_STR(&enum_case_ClientEvent_value, enum_case_ClientEvent_value_str);
	zend_enum_add_case_cstr(class_entry, "ClientEvent", &enum_case_ClientEvent_value);

	zval enum_case_CacheMiss_value;
	zend_string *enum_case_CacheMiss_value_str = zend_string_init("cache_miss", strlen("cache_miss"), 1);
	ZVAL_STR(&enum_case_CacheMiss_value, enum_case_CacheMiss_value_str);
	zend_enum_add_case_cstr(class_entry, "CacheMiss", &enum_case_CacheMiss_value);

	zval enum_case_SubscriptionCount_value;
	zend_string *enum_case_SubscriptionCount_value_str = zend_string_init("subscription_count", strlen("subscription_count"), 1);
	ZVAL_STR(&enum_case_SubscriptionCount_value, enum_case_SubscriptionCount_value_str);
	zend_enum_add_case_cstr(class_entry, "SubscriptionCount", &enum_case_SubscriptionCount_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Mercure_Algorithm(void)
{
	zend_class_entry *class_entry = zend_register_internal_enum("Fermata\\Mercure\\Algorithm", IS_STRING, class_Fermata_Mercure_Algorithm_methods);

	zval enum_case_HS256_value;
	zend_string *enum_case_HS256_value_str = zend_string_init("HS256", strlen("HS256"), 1);
	ZVAL_STR(&enum_case_HS256_value, enum_case_HS256_value_str);
	zend_enum_add_case_cstr(class_entry, "HS256", &enum_case_HS256_value);

	zval enum_case_HS384_value;
	zend_string *enum_case_HS384_value_str = zend_string_init("HS384", strlen("HS384"), 1);
	ZVAL_STR(&enum_case_HS384_value, enum_case_HS384_value_str);
	zend_enum_add_case_cstr(class_entry, "HS384", &enum_case_HS384_value);

	zval enum_case_HS512_value;
	zend_string *enum_case_HS512_value_str = zend_string_init("HS512", strlen("HS512"), 1);
	ZVAL_STR(&enum_case_HS512_value, enum_case_HS512_value_str);
	zend_enum_add_case_cstr(class_entry, "HS512", &enum_case_HS512_value);

	zval enum_case_RS256_value;
	zend_string *enum_case_RS256_value_str = zend_string_init("RS256", strlen("RS256"), 1);
	ZVAL_STR(&enum_case_RS256_value, enum_case_RS256_value_str);
	zend_enum_add_case_cstr(class_entry, "RS256", &enum_case_RS256_value);

	zval enum_case_RS384_value;
	zend_string *enum_case_RS384_value_str = zend_string_init("RS384", strlen("RS384"), 1);
	ZVAL_STR(&enum_case_RS384_value, enum_case_RS384_value_str);
	zend_enum_add_case_cstr(class_entry, "RS384", &enum_case_RS384_value);

	zval enum_case_RS512_value;
	zend_string *enum_case_RS512_value_str = zend_string_init("RS512", strlen("RS512"), 1);
	ZVAL_STR(&enum_case_RS512_value, enum_case_RS512_value_str);
	zend_enum_add_case_cstr(class_entry, "RS512", &enum_case_RS512_value);

	zval enum_case_PS256_value;
	zend_string *enum_case_PS256_value_str = zend_string_init("PS256", strlen("PS256"), 1);
	ZVAL_STR(&enum_case_PS256_value, enum_case_PS256_value_str);
	zend_enum_add_case_cstr(class_entry, "PS256", &enum_case_PS256_value);

	zval enum_case_PS384_value;
	zend_string *enum_case_PS384_value_str = zend_string_init("PS384", strlen("PS384"), 1);
	ZVAL_STR(&enum_case_PS384_value, enum_case_PS384_value_str);
	zend_enum_add_case_cstr(class_entry, "PS384", &enum_case_PS384_value);

	zval enum_case_PS512_value;
	zend_string *enum_case_PS512_value_str = zend_string_init("PS512", strlen("PS512"), 1);
	ZVAL_STR(&enum_case_PS512_value, enum_case_PS512_value_str);
	zend_enum_add_case_cstr(class_entry, "PS512", &enum_case_PS512_value);

	zval enum_case_ES256_value;
	zend_string *enum_case_ES256_value_str = zend_string_init("ES256", strlen("ES256"), 1);
	ZVAL_STR(&enum_case_ES256_value, enum_case_ES256_value_str);
	zend_enum_add_case_cstr(class_entry, "ES256", &enum_case_ES256_value);

	zval enum_case_ES384_value;
	zend_string *enum_case_ES384_value_str = zend_string_init("ES384", strlen("ES384"), 1);
	ZVAL_STR(&enum_case_ES384_value, enum_case_ES384_value_str);
	zend_enum_add_case_cstr(class_entry, "ES384", &enum_case_ES384_value);

	zval enum_case_EdDSA_value;
	zend_string *enum_case_EdDSA_value_str = zend_string_init("EdDSA", strlen("EdDSA"), 1);
	ZVAL_STR(&enum_case_EdDSA_value, enum_case_EdDSA_value_str);
	zend_enum_add_case_cstr(class_entry, "EdDSA", &enum_case_EdDSA_value);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_FermataException(zend_class_entry *class_entry_Throwable)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "FermataException", class_Fermata_Exception_FermataException_methods);
	class_entry = zend_register_internal_interface(&ce);
	zend_class_implements(class_entry, 1, class_entry_Throwable);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_MisuseError(zend_class_entry *class_entry_Error, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "MisuseError", class_Fermata_Exception_MisuseError_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Error);
	class_entry->ce_flags |= ZEND_ACC_FINAL;
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_ConfigurationException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "ConfigurationException", class_Fermata_Exception_ConfigurationException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_BackpressureException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "BackpressureException", class_Fermata_Exception_BackpressureException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_BadRequestException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "BadRequestException", class_Fermata_Exception_BadRequestException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_UploadException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "UploadException", class_Fermata_Exception_UploadException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_ConnectionClosedException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "ConnectionClosedException", class_Fermata_Exception_ConnectionClosedException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_ConnectionException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "ConnectionException", class_Fermata_Exception_ConnectionException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_TimeoutException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "TimeoutException", class_Fermata_Exception_TimeoutException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_CancelledException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "CancelledException", class_Fermata_Exception_CancelledException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_ClientGoneException(zend_class_entry *class_entry_Fermata_Exception_CancelledException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "ClientGoneException", class_Fermata_Exception_ClientGoneException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Fermata_Exception_CancelledException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_SharedTransactionException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "SharedTransactionException", class_Fermata_Exception_SharedTransactionException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_QueueClosedException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "QueueClosedException", class_Fermata_Exception_QueueClosedException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_GapException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "GapException", class_Fermata_Exception_GapException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	zval property_reason_default_value;
	ZVAL_EMPTY_STRING(&property_reason_default_value);
	zend_string *property_reason_name = zend_string_init("reason", sizeof("reason") - 1, 1);
	zend_declare_typed_property(class_entry, property_reason_name, &property_reason_default_value, ZEND_ACC_PUBLIC, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_reason_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_JobFailedException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "JobFailedException", class_Fermata_Exception_JobFailedException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	zval property_thrown_default_value;
	ZVAL_EMPTY_STRING(&property_thrown_default_value);
	zend_string *property_thrown_name = zend_string_init("thrown", sizeof("thrown") - 1, 1);
	zend_declare_typed_property(class_entry, property_thrown_name, &property_thrown_default_value, ZEND_ACC_PUBLIC, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_thrown_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_JobCrashedException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "JobCrashedException", class_Fermata_Exception_JobCrashedException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_FileException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "FileException", class_Fermata_Exception_FileException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	zval property_path_default_value;
	ZVAL_UNDEF(&property_path_default_value);
	zend_string *property_path_name = zend_string_init("path", sizeof("path") - 1, 1);
	zend_declare_typed_property(class_entry, property_path_name, &property_path_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_path_name);

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_FileNotFoundException(zend_class_entry *class_entry_Fermata_Exception_FileException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "FileNotFoundException", class_Fermata_Exception_FileNotFoundException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Fermata_Exception_FileException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_AccessDeniedException(zend_class_entry *class_entry_Fermata_Exception_FileException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "AccessDeniedException", class_Fermata_Exception_AccessDeniedException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Fermata_Exception_FileException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_FileExistsException(zend_class_entry *class_entry_Fermata_Exception_FileException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "FileExistsException", class_Fermata_Exception_FileExistsException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Fermata_Exception_FileException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_DiskFullException(zend_class_entry *class_entry_Fermata_Exception_FileException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "DiskFullException", class_Fermata_Exception_DiskFullException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Fermata_Exception_FileException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_IsDirectoryException(zend_class_entry *class_entry_Fermata_Exception_FileException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "IsDirectoryException", class_Fermata_Exception_IsDirectoryException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Fermata_Exception_FileException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_NotDirectoryException(zend_class_entry *class_entry_Fermata_Exception_FileException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "NotDirectoryException", class_Fermata_Exception_NotDirectoryException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Fermata_Exception_FileException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_DirectoryNotEmptyException(zend_class_entry *class_entry_Fermata_Exception_FileException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "DirectoryNotEmptyException", class_Fermata_Exception_DirectoryNotEmptyException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Fermata_Exception_FileException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;

	return class_entry;
}

static zend_class_entry *register_class_Fermata_Exception_ProtocolException(zend_class_entry *class_entry_RuntimeException, zend_class_entry *class_entry_Fermata_Exception_FermataException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Fermata\\Exception", "ProtocolException", class_Fermata_Exception_ProtocolException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);
	class_entry->ce_flags |= ZEND_ACC_FINAL;
	zend_class_implements(class_entry, 1, class_entry_Fermata_Exception_FermataException);

	return class_entry;
}
