// visualizer/page/app: the frame of the page: routes, navigation, sign-in and the keyboard.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { tokenName } from '../data/caller.ts';
import { openItems, readOpenItems } from '../data/open-items.ts';
import { describeThrown, RequestError, requestServer } from '../data/request.ts';
import { lostSince, useNews, useRead } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import { formatTimeOfDay, showSafe } from '../render/format.ts';
import { Button } from '../ui/button.tsx';
import { Form, NameField } from '../ui/two-presses.tsx';
import { helpIsOpen, shownShortcuts } from './keyboard.ts';
import { route } from './router.ts';

const LINKS = [
  { href: '/', name: 'Overview', view: 'overview' },
  { href: '/runs', name: 'Runs', view: 'runs' },
  { href: '/inbox', name: 'Inbox', view: 'inbox' },
  { href: '/agents', name: 'Agents', view: 'agents' },
  { href: '/regressions', name: 'Regressions', view: 'regressions' },
] as const;

type RegressionsPage = { regressions: unknown[]; next?: string };

export function Shell({ children, source }: { children: ComponentChildren; source: PageSource }) {
  return (
    <>
      {source.live && <TopBar source={source} />}
      {source.live && <LostServer />}
      {children}
      <KeyHelp />
    </>
  );
}

function TopBar({ source }: { source: PageSource }) {
  const waiting = useRead(readOpenItems, []);
  useNews(source, ['ready', 'inbox', 'removed'], waiting.again);
  const { answer } = useRead(() => requestServer<RegressionsPage>('/regressions?limit=1'), [], {
    once: true,
  });
  const hasRegressions = answer?.next !== undefined || answer?.regressions.length === 1;
  const { view: shown } = route.value;
  const links = LINKS.filter(({ view }) => view !== 'regressions' || view === shown || hasRegressions);
  return (
    <nav class="top" aria-label="Main">
      <a class="brand" href="/">
        <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
          <path d="M2 3h5v4H2zM9 9h5v4H9z" class="brand-box" />
          <path d="M4.500 7v4H9" class="brand-line" />
        </svg>
        <span class="spoken">Agentchart</span>
      </a>
      {links.map(({ href, name, view }) => (
        <a key={href} href={href} aria-current={shown === view ? 'page' : undefined}>
          {name}
          {view === 'inbox' && openItems.value !== '' && (
            <>
              {' '}
              <span class="count-mark">{openItems.value}</span>
            </>
          )}
        </a>
      ))}
      <span class="space" />
      {tokenName() === '' ? (
        <NameField label="Deciding as" />
      ) : (
        <span class="acting">
          <span>Deciding as</span> <bdi>{showSafe(tokenName())}</bdi>
        </span>
      )}
      <Button class="quiet keys" aria-label="Keys" label="?" onClick={() => (helpIsOpen.value = true)} />
    </nav>
  );
}

function LostServer() {
  const since = lostSince.value;
  return (
    <p class="lost" role="status">
      {since !== null &&
        `The server has not answered since ${formatTimeOfDay(since)}; the page keeps trying.`}
    </p>
  );
}

function KeyHelp() {
  const dialog = useRef<HTMLDialogElement>(null);
  const open = helpIsOpen.value;
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  const close = () => (helpIsOpen.value = false);
  return (
    <dialog ref={dialog} class="key-help" aria-labelledby="key-help" onClose={close}>
      <h2 id="key-help">Keys</h2>
      {open &&
        shownShortcuts.value.map(({ title, shortcuts }) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {shortcuts.map(({ keys, does }) => (
                <div key={does}>
                  <dt>
                    {keys.map(key => (
                      <kbd key={key}>{NAMES[key] ?? key}</kbd>
                    ))}
                  </dt>
                  <dd>{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}

const NAMES: Readonly<Record<string, string>> = {
  ArrowLeft: '←',
  ArrowRight: '→',
  ArrowUp: '↑',
  ArrowDown: '↓',
  ' ': 'Space',
};

/** The token of a link, which is in no request; taken out of the address. */
function takeLinkedToken(): string {
  const [, token = ''] = /^#token=([\w-]+)$/.exec(location.hash) ?? [];
  if (token !== '') history.replaceState(null, '', location.pathname + location.search);
  return token;
}

export const linkedToken = takeLinkedToken();

export function SignIn() {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    field.current?.focus();
    if (field.current === null || linkedToken === '') return;
    field.current.value = linkedToken;
    field.current.form?.querySelector('button')?.click();
  }, []);
  const signIn = async (): Promise<string | null> => {
    try {
      await requestServer('/session', { token: field.current?.value ?? '' });
      location.reload();
      return null;
    } catch (error) {
      field.current?.select();
      const isWrong = error instanceof RequestError && error.status === 401;
      return isWrong ? WRONG_TOKEN : describeThrown(error);
    }
  };
  return (
    <main class="sign-in">
      <h1>Agentchart</h1>
      <p>This server requires a token to sign in.</p>
      <Form label="Sign in" run={signIn}>
        <label for="token">Token</label>
        <input ref={field} type="password" id="token" name="token" required autocomplete="current-password" />
      </Form>
    </main>
  );
}

const WRONG_TOKEN =
  'Wrong token. Use the token that the server was started with (AGENTCHART_TOKEN or --token).';
