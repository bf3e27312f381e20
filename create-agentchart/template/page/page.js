/** A customer's chat over `/story`, and a manager's inbox over `/inbox`. In one page, to try both. */

const find = id => document.getElementById(id);
const thread = crypto.randomUUID();

async function request(path, { person, body }) {
  const headers = { authorization: `Bearer ${find(person).value}`, 'content-type': 'application/json' };
  const sent = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
  const response = await fetch(path, { headers, ...sent });
  if (response.ok) return response;
  const { error } = await response.json();
  throw new Error(error.message);
}

/** Runs work of a button, and shows what went wrong. */
function attempt(work) {
  find('problem').textContent = '';
  work().catch(error => {
    find('problem').textContent = error.message;
  });
}

function addLine(list, className, text) {
  const line = document.createElement('li');
  line.className = className;
  line.textContent = text;
  list.append(line);
  return line;
}

/** The lines of a run, as they come: each is JSON. */
async function* linesOf(response) {
  let rest = '';
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split('\n');
    rest = lines.pop();
    yield* lines.filter(line => line !== '').map(line => JSON.parse(line));
  }
}

/** Shows a run until it has ended, also while it waits for a manager. */
async function show(response) {
  const list = find('messages');
  let run = '';
  let seq = 0;
  let answer;
  let isOver = false;
  for (let lines = linesOf(response); !isOver; lines = linesOf(await follow(run, seq))) {
    isOver = true;
    for await (const line of lines) {
      seq = line.seq ?? seq;
      if (line.type === 'run') run = line.runId;
      else if (line.type === 'turn.opened') answer = addLine(list, 'answer', '');
      else if (line.type === 'turn.closed' && answer?.textContent === '') answer.remove();
      else if (line.type === 'text' && answer) answer.textContent += line.text;
      else if (line.type === 'call.asked')
        addLine(list, 'note', `Waits for a decision: ${line.open.reason ?? ''}`);
      else if (line.type === 'error') throw new Error(line.message);
      else if (line.type === 'settled') isOver = line.status !== 'waiting';
    }
  }
}

const follow = (run, seq) => request(`/story/${run}?after=${seq}&follow=1`, { person: 'customer' });

find('chat').addEventListener('submit', event => {
  event.preventDefault();
  const input = find('text').value;
  find('text').value = '';
  addLine(find('messages'), 'mine', input);
  attempt(async () => show(await request('/story', { person: 'customer', body: { input, thread } })));
});

function addDecision(item, name, label) {
  const button = document.createElement('button');
  button.textContent = label;
  button.addEventListener('click', () =>
    attempt(async () => {
      const { callId, digest } = item.call;
      await request(`/runs/${item.runId}/${name}`, { person: 'manager', body: { callId, digest } });
      await readInbox();
    }),
  );
  return button;
}

async function readInbox() {
  const { items } = await (await request('/inbox', { person: 'manager' })).json();
  const approvals = items.filter(({ kind }) => kind === 'approval');
  find('empty').hidden = approvals.length > 0;
  const shown = approvals.map(({ call }) => call.callId).join();
  if (find('inbox').dataset.shown === shown) return;
  find('inbox').dataset.shown = shown;
  find('inbox').replaceChildren();
  for (const item of approvals) {
    const { name, input, reason } = item.call;
    const line = addLine(
      find('inbox'),
      'item',
      `${item.startedBy}: ${name} ${JSON.stringify(input)}\n${reason ?? ''}\n`,
    );
    line.append(addDecision(item, 'approve', 'Approve'), ' ', addDecision(item, 'reject', 'Reject'));
  }
}

attempt(readInbox);
setInterval(() => attempt(readInbox), 2000);
