package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Fake is a process of its own; time stands still until a test moves it.
type Fake struct {
	URL        string `json:"base_url"`
	Key        string `json:"key"`
	SandboxKey string `json:"sandbox_key"`
	Token      string `json:"control_token"`
	process    *os.Process
}

func serve(options ...string) *Fake {
	command := os.Getenv("RANKSIM_SERVE")
	if command == "" {
		command = "ranksim serve"
	}
	words := append(strings.Fields(command), "--json", "--port", "0", "--clock", "manual", "--log", "none")
	words = append(words, options...)
	server := exec.Command(words[0], words[1:]...)
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		panic(err)
	}
	line, _ := bufio.NewReader(out).ReadBytes('\n')
	fake := &Fake{process: server.Process}
	if err := json.Unmarshal(line, fake); err != nil {
		panic(err)
	}
	return fake
}

// control asks the control API, and gives its answer.
func (f *Fake) control(t *testing.T, method, path string, body any) map[string]any {
	t.Helper()
	sent, _ := json.Marshal(body)
	request, _ := http.NewRequest(method, f.URL+"/_ranksim"+path, bytes.NewReader(sent))
	request.Header.Set("Authorization", "Bearer "+f.Token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, _ := io.ReadAll(answer.Body)
	if answer.StatusCode >= 300 {
		t.Fatalf("%s %s: %s", method, path, raw)
	}
	read := map[string]any{}
	_ = json.Unmarshal(raw, &read)
	return read
}

// client is one that sleeps on the clock of the fake, in a world that begins anew.
func (f *Fake) client(t *testing.T) *Client {
	t.Helper()
	f.control(t, "POST", "/reset", nil)
	sleep := func(time time.Duration) {
		f.control(t, "POST", "/clock/advance", object{"by": time.String()})
	}
	return &Client{URL: f.URL, Key: f.Key, Sleep: sleep}
}
