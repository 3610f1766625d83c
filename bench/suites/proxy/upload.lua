-- Sends a POST with a body of 1 MB over keep-alive connections.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.body = string.rep("fermata ", 131072)
