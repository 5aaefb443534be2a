import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Against a process, or the container: {@code RANKSIM_SERVE} says how one is started. */
class ClientTest {
    static final HttpClient HTTP = HttpClient.newHttpClient();
    static Process server;
    static String url, key, token;

    @BeforeAll
    static void serve() throws Exception {
        String command = System.getenv().getOrDefault("RANKSIM_SERVE", "ranksim serve");
        List<String> words = new ArrayList<>(List.of(command.split(" ")));
        words.addAll(List.of("--json", "--port", "0", "--clock", "manual", "--log", "none"));
        server = new ProcessBuilder(words).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        String line = server.inputReader().readLine(); // it is written once a request would be answered
        url = text(line, "base_url");
        key = text(line, "key");
        token = text(line, "control_token");
    }

    @AfterAll
    static void stop() {
        server.destroy();
    }

    @BeforeEach
    void reset() throws Exception {
        control("/reset", "{}");
    }

    /** A member of JSON that is a text; an application has a library for this. */
    static String text(String json, String name) {
        Matcher found = Pattern.compile('"' + name + "\": ?\"([^\"]*)").matcher(json);
        assertTrue(found.find(), json);
        return found.group(1);
    }

    static HttpResponse<String> send(String method, String path, String auth, String body, String... headers)
            throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path))
                .header("Authorization", "Bearer " + auth)
                .header("Content-Type", "application/json")
                .method(method, body.isEmpty() ? BodyPublishers.noBody() : BodyPublishers.ofString(body));
        for (int at = 0; at < headers.length; at += 2) request.header(headers[at], headers[at + 1]);
        return HTTP.send(request.build(), BodyHandlers.ofString());
    }

    static void control(String path, String body) throws Exception {
        HttpResponse<String> answer = send("POST", "/_ranksim" + path, token, body);
        assertTrue(answer.statusCode() < 300, answer.body());
    }

    @Test
    void aLostAnswerDoesNothingTwice() throws Exception {
        control("/faults", "{\"operation\": \"domains.create\", \"drop_after_rate\": 1, \"times\": 1}");
        String body = "{\"host\": \"a.example\"}";
        assertThrows(IOException.class, () -> send("POST", "/v1/domains", key, body, "Idempotency-Key", "1"));
        HttpResponse<String> again = send("POST", "/v1/domains", key, body, "Idempotency-Key", "1");
        assertEquals("true", again.headers().firstValue("Idempotent-Replayed").orElse(""));
    }

    @Test
    void aGatewaysHtmlIsNoJson() throws Exception {
        control("/faults", "{\"status\": 502, \"body\": \"html\", \"times\": 1}");
        HttpResponse<String> answer = send("GET", "/v1/account", key, "");
        assertEquals(502, answer.statusCode());
        assertEquals("text/html; charset=utf-8", answer.headers().firstValue("Content-Type").orElse(""));
    }

    @Test
    void aJobEndsWhenTimeHasPassed() throws Exception {
        String domain = text(send("POST", "/v1/domains", key, "{\"host\": \"a.example\"}").body(), "id");
        String crawl = String.format("{\"kind\": \"crawl\", \"domain_id\": \"%s\"}", domain);
        String job = text(send("POST", "/v1/jobs", key, crawl).body(), "id");
        control("/clock/advance", String.format("{\"until\": {\"job\": \"%s\"}}", job));
        assertEquals("done", text(send("GET", "/v1/jobs/crawl/" + job, key, "").body(), "status"));
    }
}
