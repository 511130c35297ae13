"""Two tables: secrets that are taken out of whatever text they are in, and strings that look similar and stay.

No secret is written here: each template names its parts, and they are made from random material when the test runs.
"""

import random
import re
import string

import pytest

from billhook.store.redaction import Redactor

from .made_up import KEY

BASE64 = string.ascii_letters + string.digits + "+/"
ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + string.digits,
    "h": "0123456789abcdef",
    "d": string.digits,
    "b": BASE64,
    "w": string.ascii_letters + string.digits + "_-",
    "B": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
}
PART = re.compile(r"\{([a-zA-Z])(\d+)\}")
UUID = "{h8}-{h4}-{h4}-{h4}-{h12}"


def made(template: str, seed: int) -> tuple[str, list[str]]:
    """A template with its parts filled in, and the parts that must not be readable afterwards."""
    source = random.Random(f"{template}{seed}")
    parts: list[str] = []

    def part(found: re.Match[str]) -> str:
        letters = ALPHABETS[found[1]]
        text = "".join(source.choice(letters) for _ in range(int(found[2])))
        text = text[:-1] + source.choice(string.digits.replace("0", "")) if found[1] != "B" else text
        if len(text) >= 12 and text[0] not in "+/_-":
            text = source.choice("abcdef" if found[1] == "h" else "ABC" if found[1] in "uB" else letters[:6]) + text[1:]
        parts.append(text)
        return text

    return PART.sub(part, template), parts


SHAPES = {
    "Anthropic": "sk-ant-api03-{w93}AA",
    "OpenAI project": "sk-proj-{w74}T3BlbkFJ{w74}",
    "OpenAI": "sk-{a48}",
    "OpenAI service account": "sk-svcacct-{w60}",
    "OpenRouter": "sk-or-v1-{h64}",
    "DeepSeek": "sk-{h32}",
    "Hugging Face": "hf_{a34}",
    "Replicate": "r8_{a37}",
    "Groq": "gsk_{a52}",
    "xAI": "xai-{a80}",
    "Perplexity": "pplx-{a48}",
    "Cerebras": "csk-{l48}",
    "NVIDIA": "nvapi-{w64}",
    "ElevenLabs": "sk_{h48}",
    "LangSmith": "lsv2_pt_{h32}_{h10}",
    "Langfuse": "sk-lf-" + UUID,
    "Pinecone": "pcsk_{a6}_{a60}",
    "Tavily": "tvly-dev-{a32}",
    "Firecrawl": "fc-{h32}",
    "HubSpot": "pat-na1-" + UUID,
    "Artifactory, a reference": "cmVmdGtu{a56}",
    "Infracost": "ico-{a32}",
    "Duffel": "duffel_live_{w43}",
    "Yandex": "AQVN{w36}",
    "E2B": "e2b_{h40}",
    "GitHub": "ghp_{a36}",
    "GitHub OAuth": "gho_{a36}",
    "GitHub app": "ghs_{a36}",
    "GitHub refresh": "ghr_{a36}",
    "GitHub fine-grained": "github_pat_{a22}_{a59}",
    "GitLab": "glpat-{w20}",
    "GitLab, routable": "glpat-{w27}.01.{l9}",
    "GitLab deploy": "gldt-{w20}",
    "GitLab runner": "glrt-{w20}",
    "GitLab runner registration": "GR1348941{w20}",
    "GitLab agent": "glagent-{w50}",
    "GitLab CI job": "glcbt-64_{w20}",
    "GitLab feed": "glft-{w20}",
    "GitLab incoming mail": "glimt-{w25}",
    "Bitbucket": "ATBB{a32}{h8}",
    "Atlassian": "ATATT3{w180}={u8}",
    "Trello": "ATTA{h64}",
    "Slack bot": "xoxb-{d12}-{d13}-{a24}",
    "Slack user": "xoxp-{d12}-{d12}-{d13}-{h32}",
    "Slack app": "xapp-1-{u11}-{d13}-{h64}",
    "Slack browser": "xoxc-{d12}-{d12}-{d13}-{h64}",
    "Slack cookie": "xoxd-{a100}",
    "Slack rotating": "xoxe.xoxp-1-{a146}",
    "Slack web hook": "https://hooks.slack.com/services/T{u10}/B{u10}/{a24}",
    "Slack trigger": "https://hooks.slack.com/triggers/T{u10}/{d13}/{h32}",
    "Stripe": "sk_live_{a24}",
    "Stripe, long": "sk_live_{a99}",
    "Stripe test": "sk_test_{a24}",
    "Stripe restricted": "rk_live_{a24}",
    "Stripe web hook": "whsec_{a32}",
    "SendGrid": "SG.{w22}.{w43}",
    "Mailgun": "key-{h32}",
    "Mailchimp": "{h32}-us12",
    "Brevo": "xkeysib-{h64}-{a16}",
    "Resend": "re_{a8}_{a24}",
    "Twilio": "SK{h32}",
    "Heroku": "HRKU-AA{w58}",
    "Heroku, UUID": "HRKU-" + UUID,
    "Terraform Cloud": "{a14}.atlasv1.{w67}",
    "HashiCorp Vault": "hvs.{w90}",
    "Vault batch": "hvb.{w138}",
    "Vault recovery": "hvr.{w90}",
    "Discord bot": "MTk4NjIyNDgzNDcxOTI1MjQ4.{a6}.{w38}",
    "Discord bot, older": "NzkyNzE1NDU0MTk2MDg4ODQy.{a6}.{w27}",
    "Discord web hook": "https://discord.com/api/webhooks/{d18}/{w68}",
    "Discord web hook, canary": "https://canary.discord.com/api/webhooks/{d19}/{w68}",
    "Discord web hook, version": "https://discord.com/api/v10/webhooks/{d19}/{w68}",
    "Discord MFA": "mfa.{w84}",
    "Notion": "secret_{a43}",
    "Notion, new": "ntn_{d11}{a35}",
    "Fly": "fo1_{w43}",
    "Fly macaroon": "fm2_lJPECAAAAAAA{b120}==",
    "Fly macaroon, older": "fm1r_lJPECAAAAAAA{b120}=",
    "Doppler personal": "dp.pt.{a43}",
    "Doppler service": "dp.st.dev_main.{a43}",
    "Doppler service, plain": "dp.st.{a43}",
    "Doppler CLI": "dp.ct.{a43}",
    "Doppler audit": "dp.audit.{a43}",
    "PlanetScale password": "pscale_pw_{w43}",
    "PlanetScale token": "pscale_tkn_{w43}",
    "PlanetScale OAuth": "pscale_oauth_{w43}",
    "Square": "EAAA{w60}",
    "Square OAuth": "sq0atp-{w22}",
    "Square secret": "sq0csp-{w43}",
    "Facebook": "EAACEdEose0cBA{a120}",
    "Facebook page": "EAAG{a150}ZDZD",
    "Facebook app": "1234567890123456|{w27}",
    "AWS key id": "AKIA{B16}",
    "AWS temporary id": "ASIA{B16}",
    "AWS session token": "IQoJb3JpZ2luX2VjE{b200}==",
    "AWS session token, older": "FwoGZXIvYXdzE{b200}",
    "AWS Bedrock": "ABSKQmVkcm9ja0FQSUtleS{b110}=",
    "Google API key": "AIza{w35}",
    "Google OAuth": "ya29.a0{w150}",
    "Google client secret": "GOCSPX-{w28}",
    "Google refresh token": "1//0g{w90}",
    "Firebase messaging": "AAAA{w7}:APA91b{w134}",
    "Azure client secret": "{a3}8Q~{w34}",
    "Azure DevOps": "{a52}JQQJ99{u18}AZDO{a4}",
    "Azure storage": "{b76}+ASt{a6}==",
    "Azure functions": "{w44}AzFu{w8}==",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJ{w60}.{w43}",
    "Grafana, older": "eyJrIjoi{a80}==",
    "Grafana service": "glsa_{a32}_{h8}",
    "Grafana cloud": "glc_eyJ{b100}==",
    "npm": "npm_{a36}",
    "PyPI": "pypi-AgEIcHlwaS5vcmc{w150}",
    "NuGet": "oy2{l43}",
    "RubyGems": "rubygems_{h48}",
    "crates.io": "cio{a32}",
    "Clojars": "CLOJARS_{l60}",
    "Docker": "dckr_pat_{w27}",
    "Docker organisation": "dckr_oat_{w32}",
    "DigitalOcean": "dop_v1_{h64}",
    "Cloudflare origin": "v1.0-{h24}-{h146}",
    "Shopify": "shpat_{h32}",
    "Shopify secret": "shpss_{h32}",
    "Dropbox": "sl.{w140}",
    "Dropbox, newer": "sl.u.A{w200}",
    "Telegram": "{d9}5:AA{w33}",
    "Asana": "2/{d16}/{d16}:{h32}",
    "Asana, older": "1/{d16}:{h32}",
    "Airtable": "pat{a14}.{h64}",
    "Linear": "lin_api_{a40}",
    "Linear OAuth": "lin_oauth_{h64}",
    "Vercel": "vcp_{a56}",
    "Vercel blob": "vercel_blob_rw_{a16}_{a30}",
    "Netlify": "nfp_{a36}",
    "Supabase": "sbp_{h40}",
    "Supabase secret": "sb_secret_{w31}",
    "Neon": "napi_{l64}",
    "Render": "rnd_{a32}",
    "Databricks": "dapi{h32}",
    "New Relic": "NRAK-{u27}",
    "New Relic insert": "NRII-{w32}",
    "New Relic license": "{h32}FFFFNRAL",
    "Sentry": "sntrys_{b100}_{b43}",
    "Sentry user": "sntryu_{h64}",
    "Sentry DSN": "https://{h32}@o450000.ingest.sentry.io/4500001",
    "Dynatrace": "dt0c01.{B24}.{B64}",
    "Postman": "PMAK-{h24}-{h34}",
    "Figma": "figd_{w40}",
    "Contentful": "CFPAT-{w43}",
    "Pulumi": "pul-{h40}",
    "Tailscale": "tskey-auth-{a17}-{a32}",
    "Tailscale API": "tskey-api-{a17}-{a32}",
    "Sonar": "sqp_{h40}",
    "Sourcegraph": "sgp_{h16}_{h40}",
    "Buildkite": "bkua_{h40}",
    "CircleCI": "CCIPAT_{a22}_{h40}",
    "Prefect": "pnu_{a36}",
    "PostHog": "phx_{a43}",
    "ReadMe": "rdme_{l70}",
    "Typeform": "tfp_{w59}",
    "EasyPost": "EZAK{a54}",
    "Shippo": "shippo_live_{h40}",
    "Artifactory": "AKCp{a69}",
    "Alibaba": "LTAI{a20}",
    "Plaid": "access-production-" + UUID,
    "LaunchDarkly": "sdk-" + UUID,
    "OpenShift": "sha256~{w43}",
    "1Password": "ops_eyJ{b250}",
    "age": "AGE-SECRET-KEY-1{u58}",
    "a password hash": "$6${a16}${a86}",
    "bcrypt": "$2b$12${a53}",
    "a key in DER, RSA": "MIIEpAIBAAKCAQEA{b200}",
    "a key in DER, RSA of 4096 bits": "MIIJKQIBAAKCAgEA{b300}",
    "a key in DER, PKCS #8": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj{b200}",
    "a key in DER, EC": "MHcCAQEEI{b100}==",
    "a key in DER, EC in PKCS #8": "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg{b90}",
    "a key in DER, Ed25519": "MC4CAQAwBQYDK2VwBCIEI{b43}",
    "a key of OpenSSH": "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU{b300}",
    "a key in base64 of PEM": "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo{b300}",
}
"""Known wherever they are."""

AROUND = {
    "alone": "%s",
    "a sentence": "I used %s, and it works.",
    "a call": 'client = Client("%s")',
    "an odd variable": "export THING=%s && make",
    "JSON": '{"thing": "%s", "n": 1}',
    "JSON in JSON": '{\\"thing\\": \\"%s\\"}',
    "YAML": "a:\n  thing: %s\n  n: 1\n",
    "an option": "tool --thing %s --fast",
    "a query": "https://x.example/a?thing=%s&n=1",
    "a header": "curl -H 'X-Thing: %s' https://x.example",
    "a line": "before\n%s\nafter",
}

NAMED = {
    "Fernet, a call": 'f = Fernet(b"{w43}=")',
    "Fernet, an argument": "Fernet(key=b'{w43}=')",
    "Fernet, a list of calls": "MultiFernet([Fernet('{w43}=')])",
    "a personal access token by its name": "AZURE_DEVOPS_EXT_PAT={a52}",
    "a session in a fragment": "https://x.example/#session_id={a40}",
    "a session in a header": "X-Session-Id: {a40}",
    "a secret that is put": "echo {a32} | wrangler secret put API_KEY",
    "a secret that is created": "printf '{a32}' | docker secret create db -",
    "a secret of Google's cloud": "echo -n {a32} | gcloud secrets create x --data-file=-",
    "a secret of Azure": "az keyvault secret set --vault-name v --name n --value {a32}",
    "a parameter of AWS": "aws ssm put-parameter --type SecureString --name /a --value {a32}",
    "a password of a key store": "keytool -list -storepass {a14}",
    "a Kubernetes secret with comments": "kind: Secret # x\ndata: # y\n  blob: {b40}=\n",
    "a Kubernetes secret in one line": "{kind: Secret, data: {blob: {b40}=}}",
    "Fernet": "FERNET_KEY={w43}=",
    "Fernet, Airflow": "AIRFLOW__CORE__FERNET_KEY={w43}=",
    "Fernet in YAML": "fernet_key: {w43}=",
    "Fernet in JSON": '{"fernetKey": "{w43}="}',
    "Fernet in code": "fernet_key = b'{w43}='",
    "a key, upper case": "STRIPE_KEY={a32}",
    "a key of a product": "export AZURE_OPENAI_KEY={h32}",
    "a key of a map": "MAPS_KEY='{w39}'",
    "a key, UUID": "HEROKU_KEY=" + UUID,
    "a key in JSON": '{"openai_key": "{a48}"}',
    "a key in YAML": "datadog_key: {h32}",
    "a key as an option": "tool --openai-key {a40}",
    "a key as an option with =": "tool --ingest-key={h32}",
    "a key, camel case": 'sendgridKey: "{a40}"',
    "a key in a header": "curl -H 'Fastly-Key: {a32}' https://x.example",
    "a key in TOML": 'cohere_key = "{a40}"',
    "a key in a list": 'docker run -e "WANDB_KEY={h40}" x',
    "a preshared key": "PresharedKey = {b43}=",
    "a WireGuard key": "PrivateKey = {b43}=",
    "a Django key": "SECRET_KEY = 'django-insecure-{a50}'",
    "a Rails key": "RAILS_MASTER_KEY={h32}",
    "a Laravel key": "APP_KEY=base64:{b43}=",
    "a Next.js key": "NEXT_SERVER_ACTIONS_ENCRYPTION_KEY={b43}=",
    "a Datadog key": "DD_API_KEY={h32}",
    "a Datadog app key": "DD_APP_KEY={h40}",
    "a Datadog header": "DD-APPLICATION-KEY: {h40}",
    "an Azure storage key": "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={b86}==;EndpointSuffix=y",
    "an Azure SAS": "https://x.blob.core.windows.net/c?sv=2022&sig={b43}%3D",
    "an Azure bus": "Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey={b43}=",
    "an Azure function": "https://x.azurewebsites.net/api/f?code={w54}==",
    "jsessionid": "https://x.example/app;jsessionid={u32}?a=b",
    "JSESSIONID": "https://x.example/app;JSESSIONID={u32}.node1",
    "jsessionid, a query": "https://x.example/app?jsessionid={h32}",
    "session_id in a URL": "https://x.example/cb?session_id={a40}&a=b",
    "session_id, second": "https://x.example/cb?a=b&session_id={h32}",
    "sessionid": "https://x.example/?sessionid={l32}",
    "sessionId": "https://x.example/?sessionId=" + UUID,
    "session": "https://x.example/?session={a40}",
    "sid": "https://x.example/?a=1&sid={h32}",
    "PHPSESSID": "https://x.example/?PHPSESSID={l26}",
    "PHPSESSID in curl": "curl -b PHPSESSID={l26} https://x.example",
    "PHPSESSID of httpie": "http x.example 'PHPSESSID={l26}'",
    "a session in HTML": "https://x.example/?a=b&amp;session_id={a40}",
    "a Django session": "sessionid={l32}; path=/",
    "an OAuth code": "https://x.example/cb?code={w60}&state=x",
    "a signature": "https://x.example/f?Expires=1&Signature={b40}%3D",
    "a key in a query": "https://maps.example/api?key={w39}&q=x",
    "appid": "https://api.openweathermap.org/data?q=x&appid={h32}",
    "Okta": "Authorization: SSWS 00{w40}",
    "a bot": "Authorization: Bot {a24}.{a6}.{w38}",
    "Splunk": "curl -H 'Authorization: Splunk " + UUID + "' https://x.example",
    "OpsGenie": "Authorization: GenieKey " + UUID,
    "Fly in a header": "Authorization: FlyV1 fm2_{b120}",
    "Basic": "Authorization: Basic {b40}==",
    "bearer in lower case": "authorization: bearer {a40}",
    "Token": "Authorization: Token {h40}",
    "Vault's header": "X-Vault-Token: {w24}",
    "Shopify's header": "X-Shopify-Access-Token: {a32}",
    "Auth0": "AUTH0_CLIENT_SECRET={w64}",
    "Heroku by name": "HEROKU_API_KEY=" + UUID,
    "Cloudflare by name": "CLOUDFLARE_API_TOKEN={w40}",
    "Cloudflare's key": "X-Auth-Key: {h37}",
    "Vercel by name": "vercel deploy --token {a24}",
    "Netlify by name": "NETLIFY_AUTH_TOKEN={w43}",
    "AWS secret": "aws_secret_access_key = {b40}",
    "AWS secret in JSON": '{"SecretAccessKey": "{b40}", "SessionToken": "{b200}"}',
    "AWS session": "export AWS_SESSION_TOKEN={b200}==",
    "AWS pair": "AKIA{B16}:{b40}",
    "Twilio pair": 'Client("AC{h32}", "{h32}")',
    "Twilio in curl": "curl -u AC{h32}:{h32} https://api.twilio.com",
    "Twilio by name": "TWILIO_AUTH_TOKEN={h32}",
    "a service account": '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\n{b64}\\n{b64}\\n'
    '-----END PRIVATE KEY-----\\n"}',
    "a private key": "-----BEGIN RSA PRIVATE KEY-----\n{b64}\n{b64}\n{b20}=\n-----END RSA PRIVATE KEY-----",
    "a private key without BEGIN": "{b64}\n{b64}\n{b24}==\n-----END RSA PRIVATE KEY-----",
    "a private key without BEGIN, escaped": "{b64}\\n{b64}\\n{b24}==\\n-----END EC PRIVATE KEY-----\\n",
    "a private key without BEGIN, after tail": "$ tail -3 id_rsa\n{b64}\n{b40}\n-----END OPENSSH PRIVATE KEY-----",
    "a private key without END": "-----BEGIN EC PRIVATE KEY-----\n{b64}\n{b64}\n",
    "a private key without either": "MIIEowIBAAKCAQEA{b48}\n{b64}\n{b64}\n{b44}",
    "a private key without either, escaped": "MIIEowIBAAKCAQEA{b48}\\n{b64}\\n{b64}\\n{b44}",
    "a PGP key": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBG{b58}\n{b64}\n=Ab12\n"
    "-----END PGP PRIVATE KEY BLOCK-----",
    "a PuTTY key": "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\n{b48}\nPrivate-MAC: ab\n",
    "a JSON web key": '{"kty": "RSA", "n": "abc", "e": "AQAB", "d": "{w342}", "kid": "1"}',
    "a JSON web key, EC": '{"kty":"EC","crv":"P-256","x":"abc","y":"abc","d":"{w43}"}',
    "a JSON web key, oct": '{"kty":"oct","k":"{w43}","alg":"HS256"}',
    "Kubernetes": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  DATABASE_URL: {b44}\n  other: {b24}\n",
    "Kubernetes, as printed": "apiVersion: v1\ndata:\n  tls.crt: {b60}\n  x.json: {b40}=\n"
    "kind: Secret\nmetadata:\n  a: b\n",
    "Kubernetes, plain": "kind: Secret\nstringData:\n  url: {a24}\n  conf: '{a30}'\n",
    "Kubernetes in JSON": '{"kind": "Secret", "data": {"url": "{b44}", "x": "{b20}"}, "metadata": {"name": "x"}}',
    "Kubernetes in JSON, as printed": '{"apiVersion":"v1","data":{"url":"{b44}"},"kind":"Secret"}',
    "Kubernetes in JSON in JSON": '{\\"kind\\": \\"Secret\\", \\"data\\": {\\"url\\": \\"{b44}\\"}}',
    "Kubernetes, escaped": "kind: Secret\\nmetadata:\\n  name: x\\ndata:\\n  url: {b44}\\n",
    "Kubernetes, a document of several": "kind: ConfigMap\n---\nkind: Secret\ntype: Opaque\ndata:\n"
    "  url: {b44}\n---\nkind: Pod\n",
    "kubeconfig": "users:\n- user:\n    client-key-data: LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0tLS0tCk{b80}\n",
    "pgpass": "db.example:5432:shop:bob:{a20}",
    "pgpass, any": "*:*:*:bob:{a20}",
    "pgpass, echo": "echo 'localhost:5433:shop:bob:{a20}' >> ~/.pgpass",
    "netrc": "machine x.example\n  login bob\n  password {a20}\n",
    "netrc in one line": "machine x.example login bob password {a20}",
    "npmrc": "//registry.npmjs.org/:_authToken={a36}",
    "npmrc, _password": "//registry.example/:_password={b24}",
    "docker": '{"auths": {"x": {"auth": "{b40}=="}}}',
    "docker, identity": '{"auths": {"x": {"identitytoken": "{a40}"}}}',
    "git-credentials": "https://bob:{a30}@github.com",
    "my.cnf": "[client]\nuser=bob\npassword={a20}\n",
    "rclone": "[x]\ntype = sftp\npass = {w30}\n",
    "a database": "postgresql://bob:{a20}@db.example:5432/shop?sslmode=require",
    "MongoDB": "mongodb+srv://bob:{a20}@c.example/?w=majority",
    "redis": "redis://:{a20}@cache.example:6379/0",
    "AMQP": "amqps://bob:{a20}@mq.example/v",
    "ODBC": "Driver={SQL};Server=x;Database=y;Uid=bob;Pwd={a20};",
    "JDBC": "jdbc:postgresql://x/y?user=bob&password={a20}",
    "SMTP": "smtp://bob%40x.example:{a20}@mail.example:587",
    "wandb login": "wandb login {h40}",
    "heroku netrc": "machine api.heroku.com\n  login x@y.example\n  password " + UUID,
    "Terraform": 'credentials "app.terraform.io" {\n  token = "{a14}.atlasv1.{w67}"\n}',
    "TOTP": "otpauth://totp/x?secret={B32}&issuer=y",
    "Zapier": "https://hooks.zapier.com/hooks/catch/{d7}/{l7}a9/",
    "Teams": "https://x.webhook.office.com/webhookb2/" + UUID + "@" + UUID + "/IncomingWebhook/{h32}/" + UUID,
    "IFTTT": "https://maker.ifttt.com/trigger/x/with/key/{w43}",
    "a Wi-Fi": 'network={\n  ssid="x"\n  psk="{a20}"\n}',
    "Supabase key": "SUPABASE_SERVICE_ROLE_KEY=eyJhbGciOiJIUzI1NiJ9.eyJ{w60}.{w43}",
    "SAML": "export SIGNING_KEY='{b43}='",
    "PowerShell": '$env:OPENAI_KEY = "{a48}"',
    "fish": "set -gx STRIPE_KEY {a32}",
    "csh": "setenv MAPS_KEY {w39}",
    "Dockerfile": "ENV FERNET_KEY {w43}=",
    "GitHub output": "::add-mask::{a40}",
    "properties": "spring.datasource.password={a20}",
    "XML": "<add key=\"ApiKey\" value=\"{a40}\" />",
}  # fmt: skip
"""Known by what is around them."""

SEEDS = range(3)


def gone(parts: list[str], found: str) -> bool:
    return not any(len(part) >= 6 and (part in found or (len(part) >= 24 and part[-16:] in found)) for part in parts)


@pytest.mark.parametrize("template", SHAPES.values(), ids=SHAPES.keys())
def test_shapes(template: str) -> None:
    """At any position, in a string and in a value; a second time changes nothing."""
    for seed in SEEDS:
        secret, parts = made(template, seed)
        for around in AROUND.values():
            text = around % secret
            found = Redactor(KEY).text(text)
            assert gone(parts, found), text
            assert gone(parts, str(Redactor(KEY).value({"tool_input": {"x": [text]}}))), text
            assert Redactor(KEY).text(found) == found


@pytest.mark.parametrize("template", NAMED.values(), ids=NAMED.keys())
def test_named(template: str) -> None:
    """The secret goes, and a second time changes nothing."""
    for seed in SEEDS:
        text, parts = made(template, seed)
        if "AC{h32}" in template:
            parts = parts[1:]
        if "webhookb2" in template:
            parts = [part for part in parts if len(part) >= 32]
        for found in (Redactor(KEY).text(text), str(Redactor(KEY).value({"x": [{"y": text}]}))):
            assert gone(parts, found), text
        found = Redactor(KEY).text(text)
        assert Redactor(KEY).text(found) == found


HARMLESS = r"""
commit {h40}
git show {h40}:src/app.py
git checkout {h12}
index {h7}..{h7} 100644
* {h7} Fix the parser (HEAD -> main)
HEAD is now at {h7} Fix the parser
{h8}-{h4}-{h4}-{h4}-{h12}
"id": "{h8}-{h4}-{h4}-{h4}-{h12}"
session_id: {h8}-{h4}-{h4}-{h4}-{h12}
"session_id": "{h8}-{h4}-{h4}-{h4}-{h12}"
SESSION_ID={h8}-{h4}-{h4}-{h4}-{h12}
--session {h8}-{h4}-{h4}-{h4}-{h12}
billhook explain {h32}
turn_id={h8}-{h4}-{h4}-{h4}-{h12}:3
"tool_use_id": "toolu_{a24}"
request_id=req_{a24}
"transcript_path": "/home/me/.claude/projects/-home-me-x/{h8}-{h4}-{h4}-{h4}-{h12}.jsonl"
https://claude.example/chat/{h8}-{h4}-{h4}-{h4}-{h12}
sha256:{h64}
sha256-{b43}=
"integrity": "sha512-{b86}=="
    --hash=sha256:{h64}
checksum = "{h64}"
wheel = "https://files.example/packages/{h2}/{h2}/{h60}/x-1.0-py3-none-any.whl"
digest: sha256:{h64}
FROM python@sha256:{h64}
md5: {h32}
ETag: "{h32}"
{h64}  dist/x.tar.gz
Content-MD5: {b22}==
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA{b200}
<img src="data:image/gif;base64,R0lGODlh{b80}">
"logo": "data:image/jpeg;base64,/9j/4AAQSkZJRg{b120}"
url(data:font/woff2;base64,d09GMg{b120})
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{b200} me@host
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b43} me@host
-----BEGIN CERTIFICATE-----\nMIIDdTCCAl2gAwIBAgIL{b44}\n{b64}\n-----END CERTIFICATE-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA{b200}
-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A{b64}\n-----END PUBLIC KEY-----
LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSU{b200}
grep -c 'END PRIVATE KEY' *.pem
the line -----END RSA PRIVATE KEY----- is missing
if line == "-----END PRIVATE KEY-----":
PUBLIC_KEY={b43}=
public_key: {b43}=
VITE_CLERK_PUBLISHABLE_KEY=live_{a30}
NEXT_PUBLIC_POSTHOG_KEY=phc_{a43}
STRIPE_PUBLISHABLE_KEY=pk_live_{a24}
RECAPTCHA_SITE_KEY={w40}
PRIMARY_KEY=id
PRIMARY_KEY={h8}-{h4}-{h4}-{h4}-{h12}
primary_key: {h32}
foreign_key=users_2024
sort_key=created_at
"sort_key": "2024-01-01T00:00:00Z"
partition_key={h8}-{h4}-{h4}-{h4}-{h12}
cache_key={h64}
CACHE_KEY=deps-linux-{h64}
key: deps-${{ runner.os }}-{h64}
restore-keys: deps-{h40}
idempotency_key={h8}-{h4}-{h4}-{h4}-{h12}
Idempotency-Key: {h8}-{h4}-{h4}-{h4}-{h12}
"object_key": "2024/01/{h32}.parquet"
S3_OBJECT_KEY=builds/{h40}/app.zip
hash_key={h32}
row_key={h32}
routing_key=orders.created.v2
message_key={h32}
lookup_key=price_monthly_2024
SOME_KEY=some_value
FEATURE_KEY=new-checkout-2024
SSH_KEY=~/.ssh/id_ed25519
SSH_KEY_PATH=/home/me/.ssh/id_rsa
KEY=value
API_KEY=your-key-here
API_KEY=your_api_key_here
API_KEY=YOUR_API_KEY
API_KEY="your-api-key"
API_KEY=<your-api-key>
API_KEY=<token>
API_KEY=$VAR
API_KEY=${API_KEY}
API_KEY=${API_KEY:-}
API_KEY=$(pass show x)
API_KEY={{ api_key }}
API_KEY=%API_KEY%
API_KEY=...
API_KEY=xxxxxxxx
API_KEY=XXXXXXXXXXXXXXXX
API_KEY=********
API_KEY=insert-your-key-here
API_KEY=replace-me
API_KEY=${API_KEY:?unset}
API_KEY="${API_KEY:?must be set}" make
Fernet(settings.FERNET_KEY)
GITHUB_PAT=$GITHUB_PAT
_PATH=/usr/local/bin/python3.11
aws ssm put-parameter --type String --name /region --value eu-west-1
echo done | tee secret.txt
ico-moon-font-icons-for-the-web-2024
kubectl create secret generic x --from-file=a.txt
API_KEY=placeholder
OPENAI_API_KEY=sk-...
OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxx
export GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
Authorization: Bearer YOUR_TOKEN
Authorization: Bearer <your-token-here>
curl -H "Authorization: Bot $TOKEN" https://x.example
-H 'X-Api-Key: {{api_key}}'
"password": "{{ password }}"
os.environ["STRIPE_KEY"]
process.env.STRIPE_KEY
getenv("FERNET_KEY")
fernet_key = Fernet.generate_key()
fernet_key=settings.fernet_key
key = Key(name="x")
keyboard_key=ArrowLeft
onKeyDown={handleKeyDown}
for key in keys:
def by_key(key: str) -> str:
monkey_key=banana
kind: Deployment\ndata:\n  image: nginx
kind: ConfigMap\napiVersion: v1\ndata:\n  url: http://x.example\n  level: debug2
kind: SealedSecret\nspec:\n  encryptedData:\n    x: y
{"kind": "ConfigMap", "data": {"url": "http://x.example"}}
kubectl get secret db -o yaml
kubectl describe secret/db
secretKeyRef:\n  name: db\n  key: url
kind: Secret
the kind: Secret has values in base64
https://example.org/?session=2024
https://example.org/sessions?sort=key&code=200
https://example.org/?code=404&key=name
https://example.org/?key=created_at&order=desc
https://example.org/login?next=/account
https://example.org/?signature=none
https://example.org/search?q=how+to+set+a+session+id
https://example.org/docs/session-management-in-web-applications
git remote add origin https://github.com/me/x.git
https://discord.com/channels/{d18}/{d18}
https://discord.com/api/v10/gateway/bot
https://api.slack.com/methods/chat.postMessage
https://app.terraform.io/app/me/workspaces
en-us12
aws s3 ls s3://bucket --region us-east-1
s3://bucket-us2/path
--user bob
MD5 of OD-{h8}
MTU 1500
NTP.example.org
ODBC.driver.version
SK-{d4}
SKU{d10}
SK{h10}
TASK{d4}
ACCESS {h32}
AC{h32}
path/to/patterns.{h8}.js
main.{h20}.js
chunk-{h16}.css
vendors~app.{h20}.bundle.js
api-v1.0-beta.{d3}
v1.0-rc{d1}
sdk-tools-linux-{d7}
fc-list : family
fc-cache -f
re_match_object_name
sl.exe
cio.read()
precious
secret_manager_client_version_2
secret_santa_assignments_for_the_whole_team_2024
hf_transformers_model_name
sk_learn_test_live
gl-canvas-{d2}
glc_context
pul-request
rnd_seed=42
ops_team_rotation
mfa.required
dp.pt
dp.sa.gov.au
EAAS
EAA{d4}
LTAI
ATTACHMENT_2024
ATTACHMENTS{d20}
$6 million
$5$ and $6$
cost: $5.00
echo $2a
awk '{print $5$6}'
src/app.py:5432:10:error:foo
localhost:5432
host:5432:db
a.c:1234:5: warning: unused
12:30:45:123
2024-01-01T10:20:30.123456Z
1/2/2024
1/1234567890
10.0.0.1/24:8080
0x{h40}
{d20}
{d16}
1|2|3
{d3}|grep x
python -c 'print(1|2)'
AAAA:BBBB
"kty": "RSA", "n": "{w342}", "e": "AQAB"
wandb login --relogin
Private-Lines are part of a PuTTY key
psk
wpa_supplicant
upskill
tensor({d4}, dtype=float32)
org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerAdapter
com.example.AbstractSingletonProxyFactoryBean$1234
getUserAuthenticationTokenFromRequestHeader()
test_that_a_session_id_is_kept_in_the_log_2
arn:aws:iam::123456789012:role/Admin
arn:aws:kms:us-east-1:123456789012:key/{h8}-{h4}-{h4}-{h4}-{h12}
projects/my-proj/locations/global/keyRings/r1/cryptoKeys/k1
KMS_KEY=projects/my-proj/locations/global/keyRings/r1/cryptoKeys/k1
gs://bucket/path/{h32}
npm ERR! code E404
npm_package_name=x
pypi-attestations
jwt.decode
eyJ.eyJ
Bearer token
bearer of good news 2024
Authorization: required for admins
Authorization header is missing
Set-Cookie header
cookie: none
docker pull ghcr.io/me/x@sha256:{h64}
trace_id={h32} span_id={h16}
traceparent: 00-{h32}-{h16}-01
X-Request-Id: {h8}-{h4}-{h4}-{h4}-{h12}
""".strip().splitlines()


@pytest.mark.parametrize("template", HARMLESS)
def test_harmless(template: str) -> None:
    """Nothing is redacted, in a string or in a value."""
    for seed in SEEDS:
        text = made(template.replace("\\n", "\n"), seed)[0]
        assert Redactor(KEY).text(text) == text
        assert Redactor(KEY).value([{"x": text}]) == [{"x": text}]


def test_the_tables_are_large() -> None:
    """What they promise is measured on enough of them."""
    assert len(SHAPES) + len(NAMED) >= 200 and len(HARMLESS) >= 150
