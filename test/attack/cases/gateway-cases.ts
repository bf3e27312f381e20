import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import { calling, Gateway, type Item, type Resource } from '../../support/responses/gateway.ts';
import { HttpMcpServer } from '../../support/tools/http-mcp-server.ts';
import type { AttackCase } from './attack-case.ts';
import { type Finding, found } from './finding.ts';

const SECRET = 'hidden-argument-5K';
const DESK = { type: 'mcp', server_label: 'desk', require_approval: 'always' };
const KINDS = ['mcp', 'mcpr', 'mcpl', 'fc', 'fco', 'rs', 'msg'];

/** A gateway with a visible and a hidden server. */
function openGateway(): Gateway {
  return new Gateway(
    {
      vault: [calling('echo', { text: SECRET }), { text: 'Done.' }, { text: 'More.' }],
      asks: [calling('echo', { text: 'first' }), { text: 'Said.' }, { text: 'More.' }],
      plain: Array.from({ length: 9 }, () => ({ text: 'Hello.' })),
    },
    {
      config: folder => ({
        mcp_servers: {
          desk: folder.server({ allowed_tools: ['echo'] }),
          vault: folder.server({ hidden: true, allowed_tools: ['echo'] }),
        },
      }),
    },
  );
}

async function withGateway(attack: (gateway: Gateway) => Promise<Finding[]>): Promise<Finding[]> {
  const gateway = openGateway();
  try {
    return await attack(gateway);
  } finally {
    await gateway.close();
  }
}

type Reply = { status: number; text: string };

async function post(gateway: Gateway, body: JsonObject): Promise<Reply> {
  const response = await gateway.send('POST', '', body);
  return { status: response.status, text: await response.text() };
}

/** Everything that can be read from the response to a reference. */
async function readAll(gateway: Gateway, { status, text }: Reply): Promise<string> {
  if (status !== 200) return text;
  const { id } = JSON.parse(text) as Resource;
  const listed = await gateway.send('GET', `/${id}/input_items?order=asc`);
  return text + (await listed.text());
}

function idsOf({ id }: Resource): string[] {
  const key = id.slice('resp_'.length);
  const places = [1, 2, 3].flatMap(turn => [0, 1].map(place => `${turn}_${place}`));
  return KINDS.flatMap(kind => places.map(place => `${kind}_${key}_${place}`));
}

function referTo(id: string): JsonValue[] {
  return [
    { type: 'item_reference', id },
    { role: 'user', content: 'And?' },
  ];
}

async function referToHidden(gateway: Gateway): Promise<Finding[]> {
  const first = await gateway.create({ model: 'vault', input: 'go' });
  const findings: Finding[] = [];
  for (const id of idsOf(first)) {
    for (const behind of [{}, { previous_response_id: first.id }]) {
      const reply = await post(gateway, { model: 'plain', input: referTo(id), ...behind });
      const all = await readAll(gateway, reply);
      if (all.includes(SECRET) || /"echo"|vault/.test(all))
        findings.push(found('leaked', `${id} shows the hidden call: ${all.slice(0, 160)}`));
      if (reply.status >= 500) findings.push(found('broken', `${id}: ${reply.status} ${reply.text}`));
    }
  }
  return findings;
}

/** Every way to name a hidden tool must be refused like the name of a missing tool. */
async function forceHidden(gateway: Gateway): Promise<Finding[]> {
  const choices = (label: string): JsonObject[] => {
    const bare = label === 'vault' ? 'echo' : 'nothing';
    const named: JsonObject[] = [
      { type: 'mcp', server_label: label },
      { type: 'mcp', server_label: label, name: 'echo' },
      ...[`mcp_${label}_echo`, `${label}_${bare}`].flatMap(name =>
        ['function', 'custom', 'tool'].map(type => ({ type, name })),
      ),
      { type: 'custom', server_label: label, name: 'echo' },
    ];
    const allowed = named.flatMap(tool =>
      ['auto', 'required'].map(mode => ({ type: 'allowed_tools', mode, tools: [tool] })),
    );
    return [...named, ...allowed];
  };
  const base = { model: 'plain', input: 'go', tools: [DESK] };
  const unknownChoices = choices('nosuch');
  const findings: Finding[] = [];
  for (const [place, choice] of choices('vault').entries()) {
    const hidden = await post(gateway, { ...base, tool_choice: choice });
    const unknown = await post(gateway, { ...base, tool_choice: unknownChoices[place] ?? '' });
    if (hidden.status === unknown.status && hidden.status >= 400 && hidden.status < 500) continue;
    findings.push(
      found('leaked', `${JSON.stringify(choice)} is ${hidden.status}, unknown ${unknown.status}`),
    );
  }
  return findings;
}

async function ask(
  gateway: Gateway,
  tools: JsonObject[] = [DESK],
): Promise<{ asked: Resource; request: Item }> {
  const input = [{ role: 'user', content: 'go' }];
  const asked = await gateway.create({ model: 'asks', input, tools });
  const request = asked.output.find(({ type }) => type === 'mcp_approval_request');
  if (request === undefined) throw new Error(`no approval request: ${JSON.stringify(asked.output)}`);
  return { asked, request };
}

function approve({ id }: Item): JsonObject {
  return { type: 'mcp_approval_response', approval_request_id: id, approve: true };
}

/** Full histories with a changed approval request. */
async function changeRequests(gateway: Gateway): Promise<Finding[]> {
  const changes: JsonObject[] = [
    { arguments: '{"text":"another"}' },
    { arguments: '{"text":"first","more":1}' },
    { arguments: '' },
    { name: 'pid' },
    { name: 'mcp_vault_echo' },
    { server_label: 'vault' },
    { server_label: 'nosuch' },
  ];
  const findings: Finding[] = [];
  for (const change of changes) {
    const { asked, request } = await ask(gateway);
    const before = gateway.folder.calls().length;
    const others = asked.output.filter(item => item !== request);
    const changed = { ...request, ...change };
    const history = [{ role: 'user', content: 'go' }, ...others, changed, approve(request)];
    const replies = [
      await post(gateway, { model: 'asks', tools: [DESK], input: history }),
      await post(gateway, {
        model: 'asks',
        tools: [DESK],
        previous_response_id: asked.id,
        input: [changed, approve(request)],
      }),
    ];
    const ran = gateway.folder.calls().length - before;
    if (ran > 0) findings.push(found('broken', `approved with ${JSON.stringify(change)}, and ran ${ran}`));
    for (const { status, text } of replies)
      if (status >= 500) findings.push(found('broken', `${status} ${text}`));
  }
  return findings;
}

/** Requests a call on one server, and approves it with another server under the same label. */
async function changeServer(): Promise<Finding[]> {
  const [asked, other] = await Promise.all([HttpMcpServer.start(), HttpMcpServer.start()]);
  const gateway = new Gateway(
    { asks: [calling('echo', { text: 'first' }), { text: 'Said.' }, { text: 'More.' }] },
    { config: () => ({ allowed_server_urls: [asked.url, other.url] }) },
  );
  const server = ({ url }: HttpMcpServer) => ({
    type: 'mcp',
    server_label: 'far',
    server_url: url,
    require_approval: 'always',
  });
  const first = await ask(gateway, [server(asked)]);
  const history = [{ role: 'user', content: 'go' }, ...first.asked.output, approve(first.request)];
  const replies = [
    await post(gateway, {
      model: 'asks',
      tools: [server(other)],
      previous_response_id: first.asked.id,
      input: [approve(first.request)],
    }),
    await post(gateway, { model: 'asks', tools: [server(other)], input: history }),
  ];
  const ran = other.ran.length;
  await Promise.all([gateway.close(), asked.close(), other.close()]);
  return [
    ...(ran > 0
      ? [found('broken', `${ran} calls asked of one server ran on another of the same label`)]
      : []),
    ...replies.flatMap(({ status, text }) => (status >= 500 ? [found('broken', `${status} ${text}`)] : [])),
  ];
}

async function readDeleted(gateway: Gateway): Promise<Finding[]> {
  const marker = 'said-and-deleted-3J';
  const first = await gateway.create({ model: 'plain', input: [{ role: 'user', content: marker }] });
  const listed = await gateway.read<{ data: Item[] }>(`/${first.id}/input_items`);
  const { asked, request } = await ask(gateway);
  for (const { id } of [first, asked]) await gateway.send('DELETE', `/${id}`);
  const before = gateway.folder.calls().length;
  const findings: Finding[] = [];
  for (const id of [...listed.data, ...first.output].map(item => item.id)) {
    const reply = await post(gateway, { model: 'plain', input: referTo(id) });
    if (reply.status === 200) findings.push(found('leaked', `${id} of a deleted response resolves`));
    if ((await readAll(gateway, reply)).includes(marker)) findings.push(found('leaked', `${id} is shown`));
  }
  for (const path of [`/${first.id}`, `/${first.id}/input_items`]) {
    const { status } = await gateway.send('GET', path);
    if (status !== 404) findings.push(found('leaked', `${path} of a deleted response is ${status}`));
  }
  await post(gateway, { model: 'asks', tools: [DESK], input: [request, approve(request)] });
  if (gateway.folder.calls().length > before)
    findings.push(found('broken', 'a deleted request was approved'));
  return findings;
}

/** Items of a run that belongs to no response, and of a response outside the client's chain. */
async function readOthers(gateway: Gateway): Promise<Finding[]> {
  const marker = 'said-to-another-9X';
  const agent = createAgent({ name: 'other', model: scripted([{ text: marker }]), store: gateway.store });
  const run = await agent.start([{ ...userMessage(marker), id: 'item_theirs' }]);
  await run.settled();
  const stranger = await gateway.create({ model: 'plain', input: [{ role: 'user', content: marker }] });
  const listed = await gateway.read<{ data: Item[] }>(`/${stranger.id}/input_items`);
  const own = await gateway.create({ model: 'plain', input: 'go' });
  const key = run.id.replace(/^run_/, '');
  const ids = ['item_theirs', `msg_${key}_1_0`, ...listed.data.map(({ id }) => id)];
  const findings: Finding[] = [];
  for (const id of ids) {
    for (const behind of [{}, { previous_response_id: own.id }]) {
      const reply = await post(gateway, { model: 'plain', input: referTo(id), ...behind });
      if (reply.status === 200) findings.push(found('leaked', `${id} resolves outside its own conversation`));
    }
  }
  const replies = [
    await gateway.send('GET', `/resp_${key}`),
    await gateway.send('POST', '', { model: 'plain', input: 'go', previous_response_id: `resp_${key}` }),
  ];
  for (const { status } of replies)
    if (status < 400) findings.push(found('leaked', `resp_${key}, a run of another agent, is ${status}`));
  return findings;
}

/** Returns any item by id, without checking who requests it. */
async function resolveCarelessly(): Promise<Finding[]> {
  return await withGateway(async gateway => {
    await gateway.create({ model: 'vault', input: 'go' });
    const [record] = (await gateway.store.list({ limit: 1000 })).runs;
    const entries = await gateway.store.read(record?.runId ?? '');
    const shown = JSON.stringify(entries);
    return shown.includes(SECRET) ? [found('leaked', shown.slice(0, 160))] : [];
  });
}

export const gatewayCases: readonly AttackCase[] = [
  { name: 'references to hidden calls', short: true, run: () => withGateway(referToHidden) },
  { name: 'tool choices of hidden servers', short: true, run: () => withGateway(forceHidden) },
  { name: 'approval requests that are changed', short: true, run: () => withGateway(changeRequests) },
  { name: 'another server of the same label', short: true, run: changeServer },
  { name: 'deleted responses', run: () => withGateway(readDeleted) },
  { name: 'runs and responses of others', run: () => withGateway(readOthers) },
  { name: 'a careless lookup', control: true, short: true, run: resolveCarelessly },
];
