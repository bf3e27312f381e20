import { createRoot } from 'react-dom/client';
import { Inbox } from './inbox.jsx';
import { ChatPage } from './page.jsx';

// Stands for a sign-in: the page is opened as `…/#KEY`.
// biome-ignore lint/suspicious/noDocumentCookie: not every browser has the Cookie Store API
if (location.hash !== '') document.cookie = `key=${location.hash.slice(1)}; path=/; SameSite=Strict`;
const read = async path => (await fetch(path)).json();
const id = new URLSearchParams(location.search).get('chat') ?? 'first';
const { role } = await read('/api/me');
const page =
  role === 'requester' ? (
    <ChatPage id={id} messages={await read(`/api/chat/${encodeURIComponent(id)}`)} />
  ) : (
    <Inbox items={(await read('/api/inbox')).items} />
  );
createRoot(document.body).render(page);
