// Java server of seed 000: a ServerSocket that serves one client after another, without threads.

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

public final class Server {
    private static final int WAITING_CLIENTS_MAX = 4096;

    public static void main(String[] arguments) throws IOException {
        int port = Integer.parseInt(arguments[0]);
        String page = Files.readString(Path.of(arguments[1]));
        String head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html; charset=UTF-8\r\n\r\n";

        try (ServerSocket listener = new ServerSocket(port, WAITING_CLIENTS_MAX, InetAddress.getLoopbackAddress())) {
            while (true) {
                try (Socket client = listener.accept()) {
                    answer(client, head + page);
                } catch (IOException left) {
                    // The client has disconnected: continue with the next one.
                }
            }
        }
    }

    private static void answer(Socket client, String text) throws IOException {
        var in = new BufferedReader(new InputStreamReader(client.getInputStream(), StandardCharsets.UTF_8));
        var out = new BufferedWriter(new OutputStreamWriter(client.getOutputStream(), StandardCharsets.UTF_8));
        String line = in.readLine();
        if (line != null && line.startsWith("GET / ")) {
            out.write(text);
            out.flush();
        }
    }
}
