/* Class entries and interned strings of the module. */
#include "base/classes.h"

fermata_strings fermata_known;

zend_class_entry *fermata_ce_server, *fermata_ce_limits, *fermata_ce_history, *fermata_ce_log;
zend_class_entry *fermata_ce_access_log, *fermata_ce_access_log_format;
zend_class_entry *fermata_ce_tls, *fermata_ce_tls_version, *fermata_ce_client_certificate, *fermata_ce_trace;
zend_class_entry *fermata_ce_log_format, *fermata_ce_log_level, *fermata_ce_slow_policy, *fermata_ce_ack, *fermata_ce_same_site;
zend_class_entry *fermata_ce_uploaded_file, *fermata_ce_upload_failed;
zend_class_entry *fermata_ce_routes, *fermata_ce_next;
zend_class_entry *fermata_ce_request, *fermata_ce_response, *fermata_ce_hold;
zend_class_entry *fermata_ce_event, *fermata_ce_channel, *fermata_ce_channel_reader, *fermata_ce_member, *fermata_ce_publisher;
zend_class_entry *fermata_ce_websocket_handler, *fermata_ce_websocket, *fermata_ce_upgrade, *fermata_ce_message;
zend_class_entry *fermata_ce_queue_policy, *fermata_ce_format, *fermata_ce_options, *fermata_ce_compression;
zend_class_entry *fermata_ce_misuse, *fermata_ce_configuration, *fermata_ce_backpressure;
zend_class_entry *fermata_ce_bad_request, *fermata_ce_connection_closed, *fermata_ce_connection, *fermata_ce_timeout, *fermata_ce_protocol;
zend_class_entry *fermata_ce_cancelled, *fermata_ce_client_gone, *fermata_ce_queue_closed, *fermata_ce_gap;
zend_class_entry *fermata_ce_future, *fermata_ce_cancellation, *fermata_ce_mutex, *fermata_ce_semaphore, *fermata_ce_queue, *fermata_ce_pool;
zend_class_entry *fermata_ce_hook, *fermata_ce_shared_transaction;
zend_class_entry *fermata_ce_table, *fermata_ce_table_column, *fermata_ce_table_type;
zend_class_entry *fermata_ce_pusher, *fermata_ce_webhook, *fermata_ce_webhook_event, *fermata_ce_mercure, *fermata_ce_mercure_algorithm;
zend_class_entry *fermata_ce_jobs, *fermata_ce_job_failed, *fermata_ce_job_crashed, *fermata_ce_worker, *fermata_ce_poll, *fermata_ce_engine;
zend_class_entry *fermata_ce_client, *fermata_ce_frame, *fermata_ce_opcode, *fermata_ce_close_code;
