package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

type object = map[string]any
type answer struct {
	Data struct{ ID, Plan, Secret string }
}

var fake, near *Fake // near its limits

func TestMain(m *testing.M) {
	fake, near = serve(), serve("../near.yaml")
	code := m.Run()
	_ = fake.process.Kill()
	_ = near.process.Kill()
	os.Exit(code)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, err error, code string) {
	t.Helper()
	var no *Refused
	if !errors.As(err, &no) || no.Code != code {
		t.Fatalf("expected %s, found %v", code, err)
	}
}

func equal[T comparable](t *testing.T, found, expected T) {
	t.Helper()
	if found != expected {
		t.Fatalf("expected %v, found %v", expected, found)
	}
}

func created(t *testing.T, client *Client, path string, body object) string {
	t.Helper()
	var made answer
	must(t, client.Call("POST", path, body, &made))
	return made.Data.ID
}

func domain(t *testing.T, client *Client) string {
	t.Helper()
	return created(t, client, "/v1/domains", object{"host": "a.example"})
}

func made(t *testing.T, expected object) int {
	t.Helper()
	return int(fake.control(t, "POST", "/requests/verify", object{"expected": expected})["count"].(float64))
}

func TestAFullRateWindowIsWaitedFor(t *testing.T) {
	client := fake.client(t)
	crawl := object{"kind": "crawl", "dry_run": true, "domain_id": domain(t, client)}
	for n := 0; n < 21; n++ { // 20 a minute
		must(t, client.Call("POST", "/v1/jobs", crawl, &answer{}))
	}
	equal(t, made(t, object{"operation": "jobs.create", "status": 429}), 1)
}

func TestAGatewayThatFailsIsAskedAgain(t *testing.T) {
	client := fake.client(t)
	fake.control(t, "POST", "/faults", object{"operation": "account.get", "status": 502, "body": "html", "times": 2})
	var account answer
	must(t, client.Call("GET", "/v1/account", nil, &account))
	equal(t, account.Data.Plan, "pro")
	equal(t, made(t, object{"operation": "account.get"}), 3)
}

func TestALostAnswerDoesNothingTwice(t *testing.T) {
	client := fake.client(t)
	fake.control(t, "POST", "/faults", object{"operation": "domains.create", "drop_after_rate": 1, "times": 1})
	domain(t, client)
	domains, err := client.All("/v1/domains")
	must(t, err)
	equal(t, len(domains), 1)
}

func TestWhoAnswersTooLateIsAskedAgain(t *testing.T) {
	client := fake.client(t)
	client.HTTP.Timeout = 500 * time.Millisecond
	fake.control(t, "POST", "/faults", object{"operation": "account.get", "latency": "1h", "times": 1})
	var account answer
	must(t, client.Call("GET", "/v1/account", nil, &account))
	equal(t, account.Data.Plan, "pro")
}

func TestPagesAreReadToTheEnd(t *testing.T) {
	keywords, err := near.client(t).All("/v1/keywords")
	must(t, err)
	ids := map[string]bool{}
	for _, keyword := range keywords {
		ids[keyword.ID] = true
	}
	equal(t, len(ids), 4990)
}

func TestSlotsRunOut(t *testing.T) {
	client := near.client(t)
	lists, err := client.All("/v1/keyword-lists")
	must(t, err)
	words := []string{}
	for n := 0; n < 11; n++ {
		words = append(words, fmt.Sprint("new ", n))
	}
	err = client.Call("POST", "/v1/keywords", object{"list_id": lists[0].ID, "keywords": words}, &answer{})
	refused(t, err, "slot_limit_exceeded")
}

func TestAQuotaRunsOutAndComesBackWithTheWeek(t *testing.T) {
	client := near.client(t)
	keywords, err := client.All("/v1/keywords")
	must(t, err)
	brief := func() error {
		return client.Call("POST", "/v1/keyword-briefs", object{"keyword_id": keywords[0].ID}, &answer{})
	}
	must(t, brief())
	refused(t, brief(), "quota_exhausted")
	near.control(t, "POST", "/clock/advance", object{"until": object{"meter": "keyword_brief_refreshes"}})
	must(t, brief())
}

func TestAWebhookIsVerified(t *testing.T) {
	client := fake.client(t)
	var body []byte
	var signature string
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, _ = io.ReadAll(request.Body)
		signature = request.Header.Get("Service-Signature")
	}))
	defer receiver.Close()
	var endpoint answer
	must(t, client.Call("POST", "/v1/webhooks", object{"url": receiver.URL}, &endpoint))
	job := created(t, client, "/v1/jobs", object{"kind": "crawl", "domain_id": domain(t, client)})
	fake.control(t, "POST", "/clock/advance", object{"until": object{"job": job}})
	equal(t, Verified(body, signature, endpoint.Data.Secret, time.Now()), true)
	equal(t, Verified(append(body, ' '), signature, endpoint.Data.Secret, time.Now()), false)
}

func TestTheSandboxIsAWorldApart(t *testing.T) {
	domain(t, fake.client(t))
	sandbox := &Client{URL: fake.URL + "/sandbox", Key: fake.SandboxKey, Sleep: time.Sleep}
	domains, err := sandbox.All("/v1/domains")
	must(t, err)
	equal(t, len(domains), 0)
}
