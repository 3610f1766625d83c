/* Fermata\Routes: a group of routes with its own prefix and middleware. Also the list of a server's handlers. */
#include "http/http.h"
#include "base/optimize_size.h"

#define HANDLERS_CAPACITY_MIN 16

static zend_object_handlers routes_handlers;

/* Object lifetime */

zend_object *fermata_routes_create(zend_class_entry *ce)
{
	fermata_routes *created = zend_object_alloc(sizeof(fermata_routes), ce);
	memset(created, 0, XtOffsetOf(fermata_routes, std));
	zend_object_std_init(&created->std, ce);
	created->std.handlers = &routes_handlers;
	return &created->std;
}

static void routes_free(zend_object *object)
{
	fermata_routes *freed = FERMATA_FROM(fermata_routes, object);
	if (freed->server) {
		OBJ_RELEASE(&freed->server->std);
	}
	if (freed->parent) {
		OBJ_RELEASE(freed->parent);
	}
	if (freed->prefix) {
		zend_string_release(freed->prefix);
	}
	if (freed->middleware) {
		zend_array_release(freed->middleware);
	}
	zend_object_std_dtor(object);
}

static HashTable *routes_get_gc(zend_object *object, zval **table, int *len)
{
	fermata_routes *looked_at = FERMATA_FROM(fermata_routes, object);
	zend_get_gc_buffer *buffer = zend_get_gc_buffer_create();
	if (looked_at->server) {
		zend_get_gc_buffer_add_obj(buffer, &looked_at->server->std);
	}
	if (looked_at->parent) {
		zend_get_gc_buffer_add_obj(buffer, looked_at->parent);
	}
	fermata_gc_add_array(buffer, looked_at->middleware);
	zend_get_gc_buffer_use(buffer, table, len);
	return NULL;
}

void fermata_routes_init(void)
{
	fermata_ce_routes->create_object = fermata_routes_create;
	memcpy(&routes_handlers, zend_get_std_object_handlers(), sizeof(routes_handlers));
	routes_handlers.offset = XtOffsetOf(fermata_routes, std);
	routes_handlers.free_obj = routes_free;
	routes_handlers.get_gc = routes_get_gc;
	routes_handlers.clone_obj = NULL;
	routes_handlers.compare = zend_objects_not_comparable;
}

/* Reading */

zend_object *fermata_routes_parent(const zend_object *group)
{
	return FERMATA_FROM(fermata_routes, group)->parent;
}

fermata_server *fermata_routes_server(const zend_object *group)
{
	return FERMATA_FROM(fermata_routes, group)->server;
}

zend_array *fermata_routes_middleware(const zend_object *group)
{
	return FERMATA_FROM(fermata_routes, group)->middleware;
}

void fermata_gc_add_array(zend_get_gc_buffer *buffer, zend_array *array)
{
	if (array) {
		zval value;
		ZVAL_ARR(&value, array);
		zend_get_gc_buffer_add_zval(buffer, &value);
	}
}

/* Routes */

void fermata_route_free(fermata_route *route)
{
	if (route->group) {
		OBJ_RELEASE(route->group);
	}
	if (route->middleware) {
		zend_array_release(route->middleware);
	}
}

uint32_t fermata_server_add(fermata_server *server, const fermata_handler *handler, const fermata_route *route)
{
	if (server->handlers_len == server->handlers_capacity) {
		server->handlers_capacity = server->handlers_capacity ? server->handlers_capacity * 2 : HANDLERS_CAPACITY_MIN;
		server->handlers = safe_erealloc(server->handlers, server->handlers_capacity, sizeof(fermata_handler), 0);
		server->routes = safe_erealloc(server->routes, server->handlers_capacity, sizeof(fermata_route), 0);
	}
	server->handlers[server->handlers_len] = *handler;
	server->routes[server->handlers_len] = *route;
	return server->handlers_len++;
}

void fermata_trees_free(fermata_server *server)
{
	for (uint32_t i = 0; i < server->trees_len; i++) {
		if (server->trees[i].group) {
			OBJ_RELEASE(server->trees[i].group);
		}
		zend_string_release(server->trees[i].prefix);
	}
	if (server->trees) {
		efree(server->trees);
	}
	server->trees = NULL;
	server->trees_len = 0;
}
