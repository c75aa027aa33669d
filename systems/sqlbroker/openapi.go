package sqlbroker

import _ "embed"

// openAPI describes the HTTP API. A test holds it against the handler.
//
//go:embed openapi.yaml
var openAPI []byte
