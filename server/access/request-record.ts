// The package exports this type: its declaration must compile without the types of Node and of Hono's server.

/** What the server reports about a request when it is over. It has no content: no body, query, header or token. */
export type AccessRecord = {
  /** The `x-request-id` of the answer. */
  request: string;
  method: string;
  /** The pattern of the route, such as `/runs/:id`; `null` if there is none. */
  route: string | null;
  status: number;
  /** From the first byte of the request until the answer was sent or the client left. */
  ms: number;
  /** The name of the caller's token; `null` without a valid one. */
  caller: string | null;
  /** The run that a request to `/v1` began or continued, its `provider:model`, and what its model calls used. */
  run?: string;
  model?: string;
  usage?: {
    input_tokens: number;
    output_tokens: number;
    cached_tokens?: number;
    cache_write_tokens?: number;
  };
};
