import { createRoot } from 'react-dom/client';
import { ChatPage } from './page.jsx';

const id = new URLSearchParams(location.search).get('chat') ?? 'first';
const messages = await (await fetch(`/api/chat/${encodeURIComponent(id)}`)).json();
createRoot(document.body).render(<ChatPage id={id} messages={messages} />);
